import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Schedule } from '../../../scenarios/index.js';
import { parseTextAs, readSchedule } from '../../../scenarios/read-schedule.js';
import { formatSchedule } from '../../../scenarios/write.js';
import { messageOf } from './message-of.js';

/** How long after the last key a text is read, ms. */
const PAUSE_MS = 400;
/** A longer file is nobody's schedule, bytes. */
const MOST_BYTES = 8_000_000;

/** A text that is read as a schedule while it is written. */
interface Draft {
  readonly text: string;
  /** What is wrong with it; empty if nothing. */
  readonly problem: string;
  readonly onText: (text: string) => void;
  readonly onFile: (file: File | undefined) => Promise<void>;
}

function useDraft(schedule: Schedule, onSchedule: (schedule: Schedule) => void): Draft {
  const [text, setText] = useState(() => formatSchedule(schedule));
  const [problem, setProblem] = useState('');
  const mine = useRef('');
  const timer = useRef(0);
  useEffect(() => {
    // What was written here comes back in another layout; the text stays as its writer left it.
    const written = formatSchedule(schedule);
    if (written !== mine.current) setText(written);
    mine.current = written;
  }, [schedule]);
  const read = (given: string): void => {
    try {
      const parsed = parseTextAs(given, 'schedule', readSchedule);
      setProblem('');
      mine.current = formatSchedule(parsed);
      if (mine.current !== formatSchedule(schedule)) onSchedule(parsed);
    } catch (error) {
      setProblem(messageOf(error));
    }
  };
  return {
    text,
    problem,
    onText: (given) => {
      setText(given);
      clearTimeout(timer.current);
      timer.current = Number(setTimeout(() => read(given), PAUSE_MS));
    },
    onFile: async (file) => {
      if (file === undefined) return;
      if (file.size > MOST_BYTES) {
        setProblem('the file is too long for a page; lockstep replay shows it');
        return;
      }
      const given = scheduleIn(await file.text());
      setText(given);
      read(given);
    },
  };
}

/** The schedule as text, with what the parser says of it. */
export function EditPanel(props: {
  readonly schedule: Schedule;
  readonly onSchedule: (schedule: Schedule) => void;
}): JSX.Element {
  const { text, problem, onText, onFile } = useDraft(props.schedule, props.onSchedule);
  return (
    <div class="edit">
      <div class="editor">
        <label for="schedule">schedule, as JSON</label>
        <textarea
          id="schedule"
          spellcheck={false}
          value={text}
          aria-invalid={problem !== ''}
          aria-describedby="parser"
          onInput={(it) => onText(it.currentTarget.value)}
        />
      </div>
      <div class="beside">
        <p id="parser" class={problem === '' ? 'fine' : 'problem'} role="status">
          {problem === '' ? '✓ It is read, and was run as it stands.' : `✗ ${problem}`}
        </p>
        <p>
          Times are µs of true time from the start of the run. <code>lockstep replay</code> takes the same text, and
          says the same of what is wrong with it.
        </p>
        <label class="file">
          Open a file{' '}
          <input
            class="file-input"
            type="file"
            accept=".json,application/json"
            onChange={(it) => void onFile(it.currentTarget.files?.[0])}
          />
        </label>
      </div>
    </div>
  );
}

/** A file may be a schedule, or a scenario that has one. */
function scheduleIn(text: string): string {
  try {
    const value: unknown = JSON.parse(text);
    const inner: unknown = typeof value === 'object' && value !== null ? Reflect.get(value, 'schedule') : undefined;
    return typeof inner === 'object' && inner !== null ? JSON.stringify(inner, null, 2) : text;
  } catch {
    return text;
  }
}
