import { choiceOf, deviates } from '../deviations/index.js';
import { plainCluster, plainLock, type Schedule } from '../scenarios/index.js';
import { observeRun } from '../search/safety-map/watch.js';
import { nodeName } from '../sim/index.js';
import type { System } from './system.js';

const MS = 1_000;
/** What a try takes for each node, both ways, where nodes are asked one after the other. */
const NODE_US = 2 * MS;

/**
 * The run in which a late release of a client's first try deletes the keys of its second, and another client gets the lock
 * beside it (scenario S39). It takes connections that reorder and a client with one token for all tries of a call. Of three
 * nodes and more, the first try gets the last one. `null` where that does not break the lock.
 */
export function lateReleaseOf({ nodes, network, client }: System): Schedule | null {
  const { policy, ttlMs } = client;
  if (!network.reordering || !deviates(policy, 'token-per-call')) return null;
  const { nodeTimeoutUs, retryDelayUs, retryJitterUs } = policy.settings;
  const tryUs = nodes.length * NODE_US;
  const [firstUs, lastNode] = [tryUs + 5 * MS, nodeName(nodes.length - 1)];
  // Who waits for the answer of a release waits for so long at most.
  const waitUs = (nodeTimeoutUs ?? 0) * (deviates(policy, 'asks-in-turn') ? nodes.length : 1);
  const lateUs = waitUs + retryDelayUs + retryJitterUs + 4 * tryUs + 20 * MS;
  const isFew = nodes.length < 3;
  const others = nodes.slice(isFew ? 0 : 1).map((_, i) => nodeName(i));
  const schedule: Schedule = {
    schema: 'lockstep.schedule/2',
    cluster: plainCluster(nodes.length, { link: 'reordering' }),
    policy: choiceOf(policy),
    clients: [
      { id: 'c1', locks: [plainLock(firstUs, ttlMs)] },
      { id: 'c2', locks: [plainLock(0, ttlMs, { holdUs: firstUs + 2 * tryUs })] },
      { id: 'c3', locks: [plainLock(firstUs + waitUs + lateUs + 2 * tryUs, ttlMs)] },
    ],
    faults: [],
    fates: [
      ...(isFew
        ? []
        : [
            {
              client: 'c2',
              operation: 'acquire',
              node: lastNode,
              direction: 'request',
              delayUs: firstUs + tryUs,
            } as const,
          ]),
      ...others.map((node) => ({
        client: 'c1' as const,
        operation: 'release' as const,
        node,
        direction: 'request' as const,
        delayUs: lateUs,
      })),
    ],
    untilUs: 3 * ttlMs * MS,
  };
  return observeRun(schedule).overlap ? schedule : null;
}
