import type { JSX } from 'preact';
import type { LockState } from '../../core/index.js';
import { formatDurationMs } from '../../scenarios/index.js';
import type { TraceEvent } from '../../sim/index.js';
import { numberOf, textOf } from '../details.js';
import { describeEvent, ruleOf } from '../event-words.js';
import type { Scene } from '../picture/scene.js';
import type { Opened } from './model.js';

/** Everything about one event. */
export function Inspector(props: {
  readonly opened: Opened;
  readonly event: TraceEvent | undefined;
  readonly onPick: (seq: number) => void;
}): JSX.Element {
  const { opened, event, onPick } = props;
  const { scene } = opened;
  if (event === undefined)
    return (
      <section class="inspector" aria-label="Event">
        <h2>Event</h2>
        <p>Press → for the first event, or v for the violation.</p>
      </section>
    );
  const causes = causesOf(scene, event);
  const effects = scene.effectsOf(event.seq);
  const rule = ruleOf(event, scene);
  const changes = isNodes(event)
    ? nodeChanges(scene, event)
    : opened.stepAt === null
      ? null
      : lockChanges(opened, event);
  return (
    <section class="inspector" aria-label="Event">
      <h2>
        <span class="who">{event.process}</span> {describeEvent(event, scene)}
      </h2>
      <p class="when">
        event {event.seq} · {formatDurationMs(event.atUs)} ms true time · {formatDurationMs(event.localUs)} ms by its
        own clock
      </p>
      {rule === '' ? null : <p class="because">{rule}</p>}
      {changes === null ? null : <h3>State {changes.length === 0 ? '(nothing changes)' : ''}</h3>}
      {changes === null || changes.length === 0 ? null : <Changes changes={changes} />}
      <Links title="Because of" none="nothing before it" events={causes} scene={scene} onPick={onPick} />
      <Links title="Led to" none="nothing" events={effects} scene={scene} onPick={onPick} />
    </section>
  );
}

function isNodes(event: TraceEvent): boolean {
  return event.process.startsWith('n');
}

interface Change {
  readonly field: string;
  readonly before: string;
  readonly after: string;
}

function Changes({ changes }: { readonly changes: readonly Change[] }): JSX.Element {
  return (
    <table class="changes">
      <thead>
        <tr>
          <th scope="col">field</th>
          <th scope="col">before</th>
          <th scope="col">after</th>
        </tr>
      </thead>
      <tbody>
        {changes.map(({ field, before, after }) => (
          <tr key={field}>
            <th scope="row">{field}</th>
            <td>
              <del>{before}</del>
            </td>
            <td>
              <ins>{after}</ins>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function lockChanges({ stepAt }: Opened, event: TraceEvent): Change[] {
  const step = stepAt?.(event) ?? null;
  if (step === null) return [];
  const [before, after] = step;
  return (Object.keys(before) as (keyof LockState)[]).flatMap((field) => {
    const [a, b] = [JSON.stringify(before[field]), JSON.stringify(after[field])];
    return a === b ? [] : [{ field, before: shown(field, before[field]), after: shown(field, after[field]) }];
  });
}

/** Sets of nodes by their names, instants in ms. */
function shown(field: string, value: unknown): string {
  if (typeof value === 'object' && value !== null)
    return Object.entries(value)
      .map(([name, it]) => `${name} ${shown(name, it)}`)
      .join(', ');
  if (typeof value !== 'number') return String(value);
  if (/^(yes|no|failed|asked|releasing|lateGrants|missing)$/.test(field)) return nodesIn(value);
  return /(At|deadline)$/.test(field) ? `${formatDurationMs(value)} ms` : String(value);
}

function nodesIn(set: number): string {
  const names: string[] = [];
  for (let node = 0; node < 31; node++) if ((set & (1 << node)) !== 0) names.push(`n${node}`);
  return names.join(' ') || '–';
}

/** What became of the keys of a node by an event and what followed at once from it. */
function nodeChanges(scene: Scene, event: TraceEvent): Change[] {
  const before: NodeState = new Map();
  for (const it of scene.events) {
    if (it.seq >= event.seq) break;
    if (it.process === event.process) apply(before, it);
  }
  const after = new Map(before);
  for (const it of [event, ...scene.effectsOf(event.seq)]) if (it.process === event.process) apply(after, it);
  return [...new Set([...before.keys(), ...after.keys()])].flatMap((field) => {
    const [a, b] = [before, after].map((state) => stateWords(state.get(field), scene)) as [string, string];
    return a === b ? [] : [{ field, before: a, after: b }];
  });
}

/** The events that made a node what it is: by the resource of a key, and by the names of what else it has. */
type NodeState = Map<string, TraceEvent>;

function apply(state: NodeState, event: TraceEvent): void {
  const resource = textOf(event, 'resource');
  switch (event.kind) {
    case 'key-set':
    case 'key-lengthened':
      state.set(resource, event);
      break;
    case 'key-gone':
      state.delete(resource);
      break;
    case 'counter-set':
      state.set('counter', event);
      break;
    case 'crash':
      state.set('server', event);
      break;
    case 'restart':
    case 'failover':
      state.delete('server');
  }
}

function stateWords(event: TraceEvent | undefined, scene: Scene): string {
  switch (event?.kind) {
    case 'key-set':
    case 'key-lengthened':
      return `${scene.tokenName(numberOf(event, 'token'))}, expires ${formatDurationMs(numberOf(event, 'goneUs'))} ms`;
    case 'counter-set':
      return String(numberOf(event, 'counter'));
    case 'crash':
      return 'down';
    default:
      return '–';
  }
}

const MOST_LINKS = 12;

function causesOf(scene: Scene, event: TraceEvent): TraceEvent[] {
  const causes: TraceEvent[] = [];
  for (let it = scene.eventOf(event.cause); it !== undefined && causes.length < 6; it = scene.eventOf(it.cause))
    causes.push(it);
  return causes;
}

function Links(props: {
  readonly title: string;
  readonly none: string;
  readonly events: readonly TraceEvent[];
  readonly scene: Scene;
  readonly onPick: (seq: number) => void;
}): JSX.Element {
  const { title, none, events, scene, onPick } = props;
  return (
    <>
      <h3>{title}</h3>
      {events.length === 0 ? (
        <p class="none">{none}</p>
      ) : (
        <ul class="links">
          {events.slice(0, MOST_LINKS).map((it) => (
            <li key={it.seq}>
              <button type="button" class="link" onClick={() => onPick(it.seq)}>
                {formatDurationMs(it.atUs)} {it.process} {describeEvent(it, scene)}
              </button>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
