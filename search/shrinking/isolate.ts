import type { Fate, Schedule } from '../../scenarios/index.js';
import { nodeName, simulate } from '../../sim/index.js';
import { bodyOf, withBody } from '../schedule-body.js';
import { type Fails, leaveOutPieces, reduce, tryAll } from './reduce.js';

/** A claim in a run: by which attempt, begun when, and which nodes had not voted for it. */
interface Claim {
  readonly client: string;
  readonly lock: number;
  readonly attempt: number;
  readonly begunAtUs: number;
  readonly others: readonly string[];
}

/**
 * Makes a 1-minimal schedule smaller still, where other locks or faults are there only to keep somebody from some nodes
 * or to let attempts fail: asks when the attempt that succeeded began, loses its requests that brought no vote, and sees
 * what is needed then.
 */
export function isolate(schedule: Schedule, fails: Fails): Schedule {
  const claims = claimsOf(schedule);
  for (const some of [claims, ...claims.map((claim) => [claim])]) {
    const isolated = some.reduce(alone, schedule);
    if (!fails(isolated)) continue;
    // What brings no vote is lost already: first everything else, or the messages would go and all be as it was.
    const smaller = reduce(tryAll(leaveOutPieces(isolated, 'message'), fails), fails);
    if (weight(smaller) < weight(schedule)) return smaller;
  }
  return schedule;
}

function claimsOf(schedule: Schedule): Claim[] {
  const begun = new Map<string, { readonly attempt: number; readonly atUs: number }>();
  const nodes = Array.from({ length: schedule.cluster.nodes }, (_, i) => i);
  return simulate(schedule, { trace: true }).trace.flatMap(({ kind, process, atUs, detail }) => {
    const which = `${process} ${detail.lock}`;
    const attempt = Number(detail.attempt);
    const isRequest = (kind === 'send' || kind === 'lost') && detail.operation === 'acquire' && !('answer' in detail);
    if (isRequest && begun.get(which)?.attempt !== attempt) begun.set(which, { attempt, atUs });
    const last = begun.get(which);
    if (kind !== 'claim' || last === undefined) return [];
    const others = nodes.filter((node) => Math.floor(Number(detail.granted) / 2 ** node) % 2 === 0).map(nodeName);
    return [{ client: process, lock: Number(detail.lock), attempt: last.attempt, begunAtUs: last.atUs, others }];
  });
}

/** The lock of a claim asks only for that claim, and only the nodes that vote for it. */
function alone(schedule: Schedule, { client, lock, attempt, begunAtUs, others }: Claim): Schedule {
  const course = bodyOf(schedule);
  const lost = others.map(
    (node): Fate => ({ client, lock, operation: 'acquire', node, direction: 'request', lost: true }),
  );
  const fates = course.fates.flatMap((fate) => {
    if (fate.client !== client || (fate.lock ?? 0) !== lock) return [fate];
    const { attempt: of = 0 } = fate;
    return of < attempt ? [] : [{ ...fate, attempt: of - attempt }];
  });
  const clients = course.clients.map((it) => {
    if (it.id !== client || attempt === 0) return it;
    return {
      ...it,
      locks: it.locks.map((plan, i) => (i === lock ? { ...plan, atUs: begunAtUs, jitterPpm: [] } : plan)),
    };
  });
  return withBody(schedule, { ...course, clients, fates: [...lost, ...fates] });
}

/** How much there is to understand: a lost message is little, another lock or fault is much. */
function weight({ clients, faults, fates, cluster }: Schedule): number {
  const locks = clients.flatMap((client) => client.locks);
  const work = locks.reduce(
    (sum, lock) => sum + lock.extensions.length + lock.writes.length + lock.jitterPpm.length,
    0,
  );
  return 10 * (clients.length + locks.length + faults.length) + 5 * (work + cluster.clocks.length) + fates.length;
}
