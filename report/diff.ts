import { formatDurationMs } from '../scenarios/index.js';
import type { TraceEvent, TraceKind } from '../sim/index.js';
import { describeEvent } from './event-words.js';
import type { Scene } from './picture/scene.js';

/** An event of one run, the one that corresponds to it in another, or both. */
export interface Aligned {
  readonly a: TraceEvent | null;
  readonly b: TraceEvent | null;
  /** Both are there, at the same time and with the same outcome. */
  readonly same: boolean;
}

/** Two runs beside each other. */
interface Comparison {
  readonly rows: readonly Aligned[];
  /** Place of the first row that differs, or -1. */
  readonly first: number;
}

/** What an event is, whatever its time: numbers and names that a schedule addresses it by. */
const ADDRESS = ['client', 'lock', 'attempt', 'operation', 'round', 'node', 'resource', 'index'] as const;

/** What came of the same thing: a message that is sent or lost, arrives or not, an acquisition that succeeds or fails. */
const INSTEAD: Readonly<Partial<Record<TraceKind, TraceKind>>> = {
  lost: 'send',
  dropped: 'execute',
  'acquire-failed': 'claim',
  'not-extended': 'extended',
};

/**
 * Aligns two runs by cause: events correspond if they are of one kind, or one in place of the other, happen to the same
 * process, are about the same message, lock or key, and their causes correspond.
 */
export function compare(a: Scene, b: Scene): Comparison {
  const names = new Map<string, number>();
  const left = identities(a, names);
  const right = new Map(identities(b, names).map((id, index) => [id, b.events[index]]));
  const rows: Aligned[] = [];
  for (const [index, id] of left.entries()) {
    const event = a.events[index];
    const other = right.get(id);
    right.delete(id);
    if (event !== undefined)
      rows.push({ a: event, b: other ?? null, same: other !== undefined && isSame(event, other) });
  }
  for (const event of right.values()) if (event !== undefined) rows.push({ a: null, b: event, same: false });
  rows.sort((x, y) => timeOf(x) - timeOf(y) || orderOf(x) - orderOf(y));
  return { rows, first: rows.findIndex(({ same }) => !same) };
}

/** Numbers that are equal for events that correspond, one for each event of a run. */
function identities({ events }: Scene, names: Map<string, number>): number[] {
  const bySeq = new Map<number, number>();
  const count = new Map<string, number>();
  return events.map((event) => {
    const address = ADDRESS.map((name) => String(event.detail[name] ?? '')).join(' ');
    const what = `${bySeq.get(event.cause) ?? -1} ${INSTEAD[event.kind] ?? event.kind} ${event.process} ${address}`;
    const times = count.get(what) ?? 0;
    count.set(what, times + 1);
    const name = `${what} ${times}`;
    const id = names.get(name) ?? names.size;
    names.set(name, id);
    bySeq.set(event.seq, id);
    return id;
  });
}

function isSame(a: TraceEvent, b: TraceEvent): boolean {
  return a.kind === b.kind && a.atUs === b.atUs && outcome(a) === outcome(b);
}

function outcome({ detail }: TraceEvent): string {
  // Tokens are numbered as they come: another attempt shifts them without any other difference.
  return JSON.stringify({ ...detail, token: 0 });
}

function timeOf({ a, b }: Aligned): number {
  return Math.min(a?.atUs ?? Number.POSITIVE_INFINITY, b?.atUs ?? Number.POSITIVE_INFINITY);
}

function orderOf({ a, b }: Aligned): number {
  return (a ?? b)?.seq ?? 0;
}

/** A run of two that are compared, and what it is called beside the other one, as in "with persistence=always". */
export interface Named {
  readonly scene: Scene;
  readonly name: string;
}

/** Where two runs part, in one sentence. */
export function partingSentence({ rows, first }: Comparison, a: Named, b: Named): string {
  const row = rows[first];
  if (row === undefined) return 'The two runs are the same, event for event.';
  const at = `${formatDurationMs(timeOf(row))} ms`;
  const who = (row.a ?? row.b)?.process ?? '';
  const [left, right] = [row.a && describeEvent(row.a, a.scene), row.b && describeEvent(row.b, b.scene)];
  if (left !== null && right !== null) {
    const later = row.a?.atUs === row.b?.atUs ? '' : `, at ${formatDurationMs(row.b?.atUs ?? 0)} ms`;
    return `The runs part at ${at}: ${a.name}, ${who}: ${left}; ${b.name}${later}: ${right}.`;
  }
  return left !== null
    ? `The runs part at ${at}: ${a.name}, ${who}: ${left}; ${b.name}, that does not happen.`
    : `The runs part at ${at}: ${b.name}, ${who}: ${right}; ${a.name}, that does not happen.`;
}
