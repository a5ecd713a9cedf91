import { type LockPlan, plainLock } from '../scenarios/index.js';
import { isOwnWork } from './cases.js';
import type { Bench } from './drive.js';
import type { Hosts } from './hosts.js';
import type { Understood } from './plan.js';
import { type Attempt, calm, rehearse, use } from './rehearsal.js';

/** Calls are given so long to come to an end, ms. */
const REST_MS = 60_000;

/** What a lock does where one process makes two acquisitions at once. */
export interface TwoTasks {
  /** What the second may be of; none where that is not what the lock is for. */
  readonly besides: readonly string[];
  /** What was acquired first, and released meanwhile, nobody else gets: as the second was of this. */
  readonly keeps: string | null;
}

/** Finds out whether acquisitions of one process are kept apart, and whether they ought to be. */
export async function twoTasks(bench: Bench, hosts: Hosts, how: Understood, ttlMs: number): Promise<TwoTasks> {
  const partMs = ttlMs / 3;
  const plays = (...clients: readonly (readonly LockPlan[])[]): Promise<Attempt[]> =>
    rehearse(bench, hosts, how, calm(how.nodes, clients, (4 * ttlMs + REST_MS) * 1000));
  const of = (resource: string, lock: LockPlan): LockPlan => ({ ...lock, resources: [resource] });
  const oneByOne = await plays([use(10, ttlMs, 1), of('b', use(2 * ttlMs, ttlMs, 1))]);
  const besides = besidesOf(how, oneByOne);
  const other = [use(10 + 2 * partMs, ttlMs, 1)];
  const isFree = (attempts: readonly Attempt[]): boolean =>
    attempts.some(({ client, acquiredMs, askedMs }) => client === 'c2' && acquiredMs - askedMs < partMs / 2);
  if (besides.length === 0 || !isFree(await plays([use(10, ttlMs, partMs)], other))) return { besides, keeps: null };
  for (const resource of besides) {
    const holdMs = resource === 'a' ? 1 : 2 * partMs;
    const second = of(resource, plainLock((10 + partMs / 4) * 1000, ttlMs, { holdUs: holdMs * 1000 }));
    if (!isFree(await plays([use(10, ttlMs, partMs), second], other))) return { besides, keeps: resource };
  }
  return { besides, keeps: null };
}

/**
 * An object that is acquired and released is one lock, and a process makes one for each; what gives something for each
 * acquisition, or is handed the work, promises to keep them apart.
 */
function besidesOf(how: Understood, [one, two]: readonly Attempt[]): readonly string[] {
  const { plan } = how;
  if (isOwnWork(how) || !one?.held || !two?.held) return [];
  const differs = one.trial?.key !== two.trial?.key;
  const [first, second] = [one.held.result, two.held.result];
  const tellsApart = plan.use === 'with' || (isHandle(first) && first !== second);
  const isMade = plan.path.some(({ kind }) => kind === 'new' || kind === 'call');
  if (!tellsApart && isMade) return [];
  return [...(tellsApart ? ['a'] : []), ...(differs ? ['b'] : [])];
}

function isHandle(result: unknown): boolean {
  return (typeof result === 'object' && result !== null) || typeof result === 'function' || typeof result === 'string';
}
