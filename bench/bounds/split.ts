import { type Distance, type Fault, plainLock, type Schedule } from '../../scenarios/index.js';
import { alone } from '../../search/safety-map/adversary.js';
import { observeRun } from '../../search/safety-map/watch.js';

const NEAR_US = 1000;
const FAR_US = 2000;
const TTL_MS = 1000;

/** Clients call at once, each nearer than all others to some nodes: `nearest[i]` of them to client i. The rest is down. */
export function splitSchedule(nodes: number, nearest: readonly number[], tries: number): Schedule {
  const owner = nearest.flatMap((count, client) => Array.from({ length: count }, () => client));
  const clients = nearest.map((_, i) => ({ id: `c${i + 1}`, locks: [plainLock(0, TTL_MS)] }));
  const distances = owner.map((client, i): Distance => ({ client: `c${client + 1}`, node: `n${i}`, delayUs: NEAR_US }));
  const down = Array.from(
    { length: nodes - owner.length },
    (_, i): Fault => ({ kind: 'crash', atUs: 0, node: `n${owner.length + i}`, restartAfterUs: null }),
  );
  const base = alone({
    ttlMs: TTL_MS,
    delayUs: FAR_US,
    nodes,
    faults: down,
    policy: { settings: { nodeTimeoutUs: 50_000, tries, retryJitterUs: 0 } },
  });
  return { ...base, cluster: { ...base.cluster, distances }, clients };
}

/** Whether some division of `up` nodes among the clients leaves everybody without a quorum. */
function canSplit(nodes: number, up: number, clients: number): boolean {
  return divisions(up, clients, up).some((nearest) => observeRun(splitSchedule(nodes, nearest, 1)).claims.length === 0);
}

/** The greatest number of nodes that are up, of `nodes`, with which so many clients can all fail at once. */
export function greatestSplit(nodes: number, clients: number): number {
  let most = 0;
  for (let up = 1; up <= nodes; up++) if (canSplit(nodes, up, clients)) most = up;
  return most;
}

/** All ways to write `sum` as so many numbers of at most `most`, the greatest first: clients differ in nothing else. */
function divisions(sum: number, parts: number, most: number): number[][] {
  if (parts === 0) return sum === 0 ? [[]] : [];
  const all: number[][] = [];
  for (let first = Math.min(sum, most); first >= 0; first--) {
    for (const rest of divisions(sum - first, parts - 1, first)) all.push([first, ...rest]);
  }
  return all;
}
