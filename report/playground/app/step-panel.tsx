import type { JSX } from 'preact';
import { useMemo, useRef } from 'preact/hooks';
import type { Schedule } from '../../../scenarios/index.js';
import { formatDurationMs } from '../../../scenarios/index.js';
import { describeEvent } from '../../event-words.js';
import type { Scene } from '../../picture/scene.js';
import { runOfSteps } from '../../stepping/advance.js';
import { beginningOf, type Choice, choicesOf } from '../../stepping/choices.js';

const GROUPS: readonly (readonly [group: Choice['group'], title: string])[] = [
  ['messages', 'On the way'],
  ['clients', 'Clients'],
  ['nodes', 'Nodes'],
  ['time', 'By itself'],
];

/** One thing that something can happen to, with what can. */
interface Row {
  readonly subject: string;
  readonly choices: readonly Choice[];
}

/** What could happen next in a run, chosen by hand. */
export function StepPanel(props: {
  readonly scene: Scene;
  /** The moment that is selected in the picture, µs. */
  readonly atUs: number;
  readonly onCut: () => void;
  readonly onSchedule: (schedule: Schedule) => void;
}): JSX.Element {
  const { scene, atUs, onCut, onSchedule } = props;
  const { schedule } = scene;
  const past = useRef<Schedule[]>([]);
  // A run of steps ends a microsecond after the last of them.
  const now = useMemo(() => ({ ...schedule, untilUs: Math.max(0, schedule.untilUs - 1) }), [schedule]);
  const lastUs = scene.events.at(-1)?.atUs ?? 0;
  const isAtEnd = schedule.untilUs <= lastUs + 1;
  const choices = useMemo(() => (isAtEnd ? choicesOf(now) : []), [now, isAtEnd]);
  const take = (made: Schedule): void => {
    past.current.push(schedule);
    onSchedule(runOfSteps(made));
  };
  const undo = (): void => {
    const last = past.current.pop();
    if (last !== undefined) onSchedule(last);
  };
  const begin = (): void => {
    past.current.push(schedule);
    onSchedule(runOfSteps(beginningOf(schedule)));
  };
  return (
    <div class="step">
      <p class="actions">
        <button type="button" onClick={onCut}>
          From the selected moment, {formatDurationMs(atUs)} ms
        </button>
        <button type="button" onClick={begin}>
          From the beginning
        </button>
        <button type="button" disabled={past.current.length === 0} onClick={undo}>
          Undo
        </button>
      </p>
      {isAtEnd ? (
        <>
          <p class="step-text">
            It is {formatDurationMs(now.untilUs)} ms. Nothing arrives unless you say so. What happens next?
          </p>
          <div class="choices">
            {GROUPS.map(([group, title]) => (
              <Group key={group} title={title} rows={rowsOf(choices, group, scene)} onTake={take} />
            ))}
          </div>
        </>
      ) : (
        <p class="step-text">
          Choose a moment in the picture or in the table of events. From there on, you decide what arrives, what is
          lost, who crashes and who acts; the verdict and the picture follow, and the path downloads as a schedule.
        </p>
      )}
    </div>
  );
}

function rowsOf(choices: readonly Choice[], group: Choice['group'], scene: Scene): Row[] {
  const rows = new Map<string, Choice[]>();
  for (const choice of choices) {
    if (choice.group !== group) continue;
    const subject = subjectWords(choice, scene);
    rows.set(subject, [...(rows.get(subject) ?? []), choice]);
  }
  return [...rows].map(([subject, of]) => ({ subject, choices: of }));
}

function subjectWords({ subject, group }: Choice, scene: Scene): string {
  if (typeof subject === 'string') return subject;
  const words = `${subject.process} ${describeEvent(subject, scene)}`;
  return group === 'time' ? `at ${formatDurationMs(subject.atUs)} ms: ${words}` : words;
}

function Group(props: {
  readonly title: string;
  readonly rows: readonly Row[];
  readonly onTake: (made: Schedule) => void;
}): JSX.Element {
  const { title, rows, onTake } = props;
  return (
    <section>
      <h3>{title}</h3>
      {rows.length === 0 ? <p class="none">nothing</p> : null}
      <ul>
        {rows.map(({ subject, choices }) => (
          <li key={subject}>
            <span>{subject}</span>
            {choices.map(({ action, take }) => (
              <button type="button" key={action} aria-label={`${subject} ${action}`} onClick={() => onTake(take())}>
                {action}
              </button>
            ))}
          </li>
        ))}
      </ul>
    </section>
  );
}
