import { nodeIndex, nodeName, type TraceEvent } from '../../sim/index.js';
import { finding } from './claim-rules.js';
import type { Finding } from './finding.js';
import { groupBy } from './group-by.js';
import type { KeyChange, TraceIndex, TraceRef } from './trace-index.js';

/** A key on a node from when it was set to when it was gone, or to the end of the run. */
interface Life {
  readonly set: KeyChange;
  readonly end: TraceRef;
}

/** A place in the trace at which the time by which a key has to be gone, or whether its node is up, may be another. */
interface Turn extends TraceRef {
  readonly kind: 'due' | 'up' | 'down';
  readonly dueUs: number;
}

/**
 * A key is there, on a node that is up, at an instant that its clock shows as later than every TTL which the node was asked
 * for with its token before.
 */
export function boundedKeyLifetime(record: TraceIndex): Finding[] {
  const turns = groupBy(turnsIn(record), ({ node }) => node);
  const takeovers = record.events.filter(({ kind, detail }) => kind === 'failover' && 'of' in detail);
  return livesIn(record).flatMap(({ set, end }) => {
    const taken = takeovers.filter(({ process }) => nodeIndex(process) === set.node);
    if (taken.some(({ seq }) => seq === set.cause)) return [];
    // What another had agreed to is not known here: after that, the key is left alone.
    const known = taken.find(({ seq }) => set.seq < seq && seq < end.seq) ?? end;
    const own = (turns.get(set.node) ?? []).filter(({ token }) => token === null || token === set.token);
    const atUs = firstLate(record, { set, end: known }, own);
    const owner = record.ownerOf(set.token);
    return atUs === null ? [] : [finding('bounded-key-lifetime', owner === undefined ? [] : [owner], atUs)];
  });
}

type NodeTurn = Turn & { readonly node: number; readonly token: number | null };

function turnsIn(record: TraceIndex): NodeTurn[] {
  // Refused, or sent by a hash that the node does not know.
  const failed = new Set(record.events.flatMap(({ cause, detail }) => (detail.answer === 'error' ? [cause] : [])));
  return record.events.flatMap((event): NodeTurn[] => {
    const { seq, atUs, kind, process, detail } = event;
    if (record.setup.clients.includes(process)) return [];
    if (kind === 'crash' || kind === 'restart' || kind === 'failover')
      return [{ seq, atUs, kind: kind === 'crash' ? 'down' : 'up', dueUs: 0, node: nodeIndex(process), token: null }];
    if (kind !== 'execute' || (detail.operation !== 'acquire' && detail.operation !== 'extend')) return [];
    if (failed.has(seq)) return [];
    const token = Number(detail.token);
    return [{ seq, atUs, kind: 'due', dueUs: dueOf(record, event), node: nodeIndex(process), token }];
  });
}

/** The first reading of a node's clock at which the TTL of a command is over, if it is carried out here. */
function dueOf({ setup }: TraceIndex, { localUs, detail }: TraceEvent): number {
  const { resolutionUs, expiry } = setup.cluster;
  const lastTick = Math.floor(localUs / resolutionUs) + (Number(detail.ttlMs) * 1000) / resolutionUs;
  return (expiry === 'at' ? lastTick : lastTick + 1) * resolutionUs;
}

function livesIn({ keys, endUs }: TraceIndex): Life[] {
  const end: TraceRef = { seq: Number.POSITIVE_INFINITY, atUs: endUs };
  return [...groupBy(keys, ({ node, resource }) => `${node} ${resource}`).values()].flatMap((changes) =>
    changes.flatMap((set, i) => (set.how === 'set' ? [{ set, end: changes[i + 1] ?? end }] : [])),
  );
}

function firstLate(record: TraceIndex, { set, end }: Life, turns: readonly Turn[]): number | null {
  const clock = record.clock(nodeName(set.node));
  let [from, up, dueUs] = [set.atUs, true, 0];
  for (const turn of [...turns, { ...end, kind: 'down' as const, dueUs: 0 }]) {
    const isLast = turn.seq >= end.seq;
    const toUs = isLast ? end.atUs : turn.atUs;
    if (turn.seq > set.seq && up && dueUs > 0 && from < toUs) {
      const [less] = clock.showsLess(dueUs, { from, to: toUs });
      const lateUs = less?.from === from ? less.to : from;
      if (lateUs < toUs) return lateUs;
    }
    if (isLast) return null;
    if (turn.seq > set.seq) from = toUs;
    if (turn.kind === 'due') dueUs = Math.max(dueUs, turn.dueUs);
    else up = turn.kind === 'up';
  }
  return null;
}
