import { copyState, type LockState } from '../core/index.js';
import type { Judgement } from '../properties/index.js';
import { judge } from '../properties/judge.js';
import type { PropertyId, Schedule } from '../scenarios/index.js';
import type { TraceEvent, TraceKind, World } from '../sim/index.js';

/** Events at which a lock is about to take a step, and those that tell what came of one. */
const INPUTS: ReadonlySet<TraceKind> = new Set(['call', 'reply', 'release-call']);
const OUTCOMES: ReadonlySet<TraceKind> = new Set([
  'claim',
  'acquire-failed',
  'extended',
  'not-extended',
  'expired',
  'released',
]);

/** A run with what its locks knew. */
export interface Watched {
  readonly judgement: Judgement;
  /** State of the lock concerned before and after the step that an event belongs to; `null` if it belongs to none. */
  readonly stepAt: (event: TraceEvent) => readonly [before: LockState, after: LockState] | null;
}

/** The state of a lock as an event was taken down, and its events before and after that one. */
interface Seen {
  readonly lock: string;
  readonly state: LockState;
  readonly last: number;
  next: number;
}

/** Runs a schedule with its trace, judges it, and remembers what the locks knew. The simulator advances a state in place, so copies are kept. */
export function watch(schedule: Schedule, also: readonly PropertyId[]): Watched {
  const seen = new Map<number, Seen>();
  let world: World | undefined;
  const judgement = judge(schedule, also, true, (made) => {
    world = made;
    follow(made, seen);
  });
  return {
    judgement,
    stepAt: ({ kind, seq }) => {
      const it = seen.get(seq);
      if (it === undefined) return null;
      const other = seen.get(INPUTS.has(kind) ? it.next : it.last)?.state;
      if (INPUTS.has(kind)) return [it.state, other ?? stateOf(world, it.lock) ?? it.state];
      return OUTCOMES.has(kind) ? [other ?? it.state, it.state] : null;
    },
  };
}

function follow(world: World, seen: Map<number, Seen>): void {
  const { trace } = world.context;
  const latest = new Map<string, number>();
  const detail = trace.detail.bind(trace);
  trace.detail = (it) => {
    detail(it);
    const event = trace.events.at(-1);
    if (event === undefined || typeof it.lock !== 'number') return;
    const lock = `${typeof it.client === 'string' ? it.client : event.process} ${it.lock}`;
    const state = stateOf(world, lock);
    if (state === null) return;
    const last = latest.get(lock) ?? -1;
    const before = seen.get(last);
    if (before !== undefined) before.next = event.seq;
    latest.set(lock, event.seq);
    seen.set(event.seq, { lock, state, last, next: -1 });
  };
}

function stateOf(world: World | undefined, name: string): LockState | null {
  const [client, lock] = name.split(' ');
  const state = world?.clients.find((it) => it.name === client)?.locks[Number(lock)]?.state;
  return state === undefined ? null : copyState(state);
}
