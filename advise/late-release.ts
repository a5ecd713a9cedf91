import { choiceOf, deviates } from '../deviations/index.js';
import { type Fate, plainCluster, plainLock, type Schedule } from '../scenarios/index.js';
import { least } from '../search/safety-map/bisect.js';
import { observeRun } from '../search/safety-map/watch.js';
import { nodeName } from '../sim/index.js';
import type { System } from './system.js';

const MS = 1_000;

/** A run that a late release breaks. */
export interface LateRelease {
  readonly schedule: Schedule;
  /** How long the release is on its way: the least with which it breaks, µs. */
  readonly lateUs: number;
}

/**
 * The run in which a late release of a client's first try deletes the keys of its second, and another client gets the lock
 * beside it (scenario S39). It takes connections that reorder and a client with one token for all tries of a call. Of three
 * nodes and more, the first try gets the last one. All other messages are as quick as described. `null` where that does not
 * break the lock.
 */
export function lateReleaseOf(system: System): LateRelease | null {
  const { nodes, network, client } = system;
  const { policy } = client;
  if (!network.reordering || !deviates(policy, 'token-per-call')) return null;
  const { nodeTimeoutUs, retryDelayUs, retryJitterUs } = policy.settings;
  const usualUs = Math.max(1, Math.min(MS, Math.floor(network.mostUs / 10)));
  const inTurn = deviates(policy, 'asks-in-turn') ? nodes.length : 1;
  const pace = { usualUs, tryUs: 2 * usualUs * inTurn, waitUs: (nodeTimeoutUs ?? 0) * inTurn };
  const breaks = (lateUs: number): boolean => observeRun(scheduleOf(system, pace, lateUs)).overlap;
  const mostUs = pace.waitUs + retryDelayUs + retryJitterUs + 4 * pace.tryUs + 20 * MS;
  if (!breaks(mostUs)) return null;
  const lateUs = breaks(1) ? 1 : least(1, mostUs, breaks);
  return { schedule: scheduleOf(system, pace, lateUs), lateUs };
}

/** µs: what messages take, and a try with all nodes; for how long at most a client waits for the answers of a release. */
interface Pace {
  readonly usualUs: number;
  readonly tryUs: number;
  readonly waitUs: number;
}

function scheduleOf({ nodes, client }: System, { usualUs, tryUs, waitUs }: Pace, lateUs: number): Schedule {
  const { policy, ttlMs } = client;
  const [firstUs, last] = [tryUs + usualUs, nodeName(nodes.length - 1)];
  const isFew = nodes.length < 3;
  const others = nodes.slice(isFew ? 0 : 1).map((_, i) => nodeName(i));
  const fate = (client: string, operation: Fate['operation'], node: string, delayUs: number): Fate => ({
    client,
    operation,
    node,
    direction: 'request',
    delayUs,
  });
  return {
    schema: 'lockstep.schedule/2',
    cluster: plainCluster(nodes.length, { link: 'reordering', delayUs: usualUs }),
    policy: choiceOf(policy),
    clients: [
      // It tries again as soon as it may.
      { id: 'c1', locks: [plainLock(firstUs, ttlMs, { jitterPpm: [0] })] },
      { id: 'c2', locks: [plainLock(0, ttlMs, { holdUs: firstUs + 2 * tryUs })] },
      { id: 'c3', locks: [plainLock(firstUs + waitUs + lateUs + 2 * tryUs, ttlMs)] },
    ],
    faults: [],
    fates: [
      ...(isFew ? [] : [fate('c2', 'acquire', last, firstUs + tryUs)]),
      ...others.map((node) => fate('c1', 'release', node, lateUs)),
    ],
    untilUs: 3 * ttlMs * MS,
  };
}
