import type { TraceEvent } from '../../sim/index.js';
import { numberOf, textOf } from '../details.js';
import type { Scene } from './scene.js';

/** Tries of a client that went like the one before, and are drawn as one. */
export interface FoldedRetries {
  readonly client: string;
  readonly count: number;
  readonly fromUs: number;
  readonly toUs: number;
  /** The first event that is left out. */
  readonly seq: number;
}

/** A scene in which only the first and the last of many equal tries are left. */
export interface FoldedScene {
  readonly scene: Scene;
  readonly retries: readonly FoldedRetries[];
}

/** Fewer than this in a row are all drawn. */
const LEAST = 4;

interface Try {
  readonly client: string;
  readonly events: TraceEvent[];
  /** What happened in it, without when. */
  readonly shape: string[];
}

/** Leaves out what says the same again and again: tries of one client in which the same was sent, answered and lost. */
export function foldRetries(scene: Scene, path: ReadonlySet<number> | null): FoldedScene {
  const retries: FoldedRetries[] = [];
  const gone = new Set<number>();
  for (const tries of triesOf(scene).values()) {
    for (const group of equalRuns(tries, path)) {
      const middle = group.slice(1, -1);
      const events = middle.flatMap((it) => it.events);
      for (const { seq } of events) gone.add(seq);
      const [first, last] = [events[0], events.at(-1)];
      const client = group[0]?.client ?? '';
      if (first !== undefined && last !== undefined)
        retries.push({ client, count: middle.length, fromUs: first.atUs, toUs: last.atUs, seq: first.seq });
    }
  }
  if (retries.length === 0) return { scene, retries };
  return { scene: { ...scene, events: scene.events.filter(({ seq }) => !gone.has(seq)) }, retries };
}

/** The tries of each lock of each client, in order. */
function triesOf(scene: Scene): Map<string, Try[]> {
  const byLock = new Map<string, Try[]>();
  const tryOf = new Map<number, Try>();
  const known = new Map<string, Try>();
  for (const event of scene.events) {
    const client = textOf(event, 'client');
    const isMessage = client !== '' && event.detail.attempt !== undefined;
    let it = isMessage ? undefined : tryOf.get(event.cause);
    if (isMessage) {
      const lock = `${client} ${numberOf(event, 'lock')}`;
      const name = `${lock} ${numberOf(event, 'attempt')}`;
      it = known.get(name);
      if (it === undefined) {
        it = { client, events: [], shape: [] };
        known.set(name, it);
        byLock.set(lock, [...(byLock.get(lock) ?? []), it]);
      }
    }
    // What the client concludes is part of no try that could be left out.
    if (it === undefined || event.kind === 'claim' || event.kind === 'acquire-failed') continue;
    tryOf.set(event.seq, it);
    it.events.push(event);
    it.shape.push(`${event.kind} ${event.process} ${textOf(event, 'operation')} ${textOf(event, 'answer')}`);
  }
  return byLock;
}

function equalRuns(tries: readonly Try[], path: ReadonlySet<number> | null): Try[][] {
  const runs: Try[][] = [];
  let last = '';
  for (const it of tries) {
    const matters = path !== null && it.events.some(({ seq }) => path.has(seq));
    const shape = matters ? '' : [...it.shape].sort().join(',');
    if (shape !== '' && shape === last) runs.at(-1)?.push(it);
    else runs.push([it]);
    last = shape;
  }
  return runs.filter((run) => run.length >= LEAST);
}
