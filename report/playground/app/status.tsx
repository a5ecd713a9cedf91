import type { JSX } from 'preact';
import { greatestShare } from '../../../search/share.js';
import { formatCount } from '../../../text/format.js';
import type { Progress } from './use-work.js';

/** What the worker is at, and what it came to. */
export function Status(props: {
  readonly progress: Progress | null;
  readonly problem: string;
  readonly onStop: () => void;
}): JSX.Element {
  const { progress, problem, onStop } = props;
  return (
    <div class="status" role="status">
      {problem === '' ? null : <p class="problem">{problem}</p>}
      {progress === null ? null : <p>{wordsOf(progress)}</p>}
      {progress?.kind === 'progress' ? (
        <>
          {progress.of === 0 ? null : <progress aria-label="done" value={progress.done} max={progress.of} />}
          <button type="button" onClick={onStop}>
            Stop
          </button>
        </>
      ) : null}
    </div>
  );
}

function wordsOf(progress: Progress): string {
  switch (progress.kind) {
    case 'progress':
      return progress.of === 0 ? 'starting …' : `${formatCount(progress.done)} of ${formatCount(progress.of)}`;
    case 'found': {
      const where = `Schedule ${formatCount(progress.run)} of ${formatCount(progress.of)} breaks the lock`;
      return progress.isSmall
        ? `${where}. Made small: leave out any part, and it holds.`
        : `${where}; making it small …`;
    }
    case 'passed':
      return passedWords(progress);
  }
}

function passedWords({ runs, near, reason }: Extract<Progress, { kind: 'passed' }>): string {
  if (reason !== null) return `Nothing was decided in ${formatCount(runs)} schedules: ${reason}.`;
  const share = (100 * greatestShare(runs)).toPrecision(1);
  const close = near === 0 ? '' : ` ${formatCount(near)} came near it.`;
  return (
    `${formatCount(runs)} schedules, and none breaks the lock.${close} That is fewer than ${share} % of the schedules that ` +
    'this search draws, with 95 % confidence. It is no proof, and says nothing of your production.'
  );
}
