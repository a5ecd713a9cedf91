import type { LockPlan } from '../scenarios/index.js';
import { isOwnWork } from './cases.js';
import type { Hosts } from './hosts.js';
import type { Bench } from './load.js';
import type { Understood } from './plan.js';
import { type Attempt, calm, REST_MS, rehearse, use } from './rehearsal.js';
import type { Runnable } from './subject.js';

/** What a lock does where one process makes two acquisitions at once. */
export interface TwoTasks {
  /** What the second may be of; none where that is not what the lock is for. */
  readonly besides: readonly string[];
  /** What was acquired first, and released meanwhile, nobody else gets: as the second was of this. */
  readonly keeps: string | null;
  /** So it was because the second waited in Redis by this command, over the connection by which the first releases. */
  readonly blocksBy: string | null;
  /** Acquisitions of one process, one after the other, stored this. */
  readonly sameValue: string | null;
  /** The release of one whose key had expired gave the next one of its process away. */
  readonly deletesNext: boolean;
  /** Two acquisitions of one process are told that they have one key, both at once. */
  readonly letsBothIn: boolean;
}

/** Finds out whether acquisitions of one process are kept apart, and whether they ought to be. */
export async function twoTasks(bench: Bench, hosts: Hosts, how: Understood, ttlMs: number): Promise<TwoTasks> {
  const partMs = ttlMs / 3;
  const plays = (...clients: readonly (readonly LockPlan[])[]): Promise<Attempt[]> =>
    rehearse(bench, hosts, how, calm(how.nodes, clients, (4 * ttlMs + REST_MS) * 1000));
  const of = (resource: string, lock: LockPlan): LockPlan => ({ ...lock, resources: [resource] });
  const oneByOne = await plays([use(10, ttlMs, 1), of('b', use(2 * ttlMs, ttlMs, 1))]);
  const besides = besidesOf(how, oneByOne);
  const [value, next] = oneByOne.map(({ trial }) => trial?.value);
  const sameValue = value !== undefined && value !== '' && value === next ? value : null;
  // Who is handed the key with each call is asked by several.
  const isAsked = oneByOne[0]?.held?.result === true && besides.includes('b');
  const [first, second] = isAsked ? await plays([use(10, ttlMs, partMs), use(10 + partMs / 4, ttlMs, 1)]) : [];
  const isIn = first?.held != null && second?.held != null && second.acquiredMs < first.releasedMs;
  const letsBothIn =
    isIn || (besides.includes('a') && (await losesOwn({ bench, hosts, how }, ttlMs, besides.includes('b'))));
  const none = { besides, keeps: null, blocksBy: null, sameValue, deletesNext: false, letsBothIn };
  if (besides.length === 0) return none;
  const late = [use(10, ttlMs, 1.5 * ttlMs), use(1.1 * ttlMs, ttlMs, ttlMs)];
  const deletesNext =
    sameValue !== null &&
    (besides.includes('a') || isAsked) &&
    areBothHeld(await plays(late, [use(1.6 * ttlMs, ttlMs, 1)]));
  const other = [use(10 + 2 * partMs, ttlMs, 1)];
  const isFree = (attempts: readonly Attempt[]): boolean =>
    attempts.some(({ client, acquiredMs, askedMs }) => client === 'c2' && acquiredMs - askedMs < partMs / 2);
  if (!isFree(await plays([use(10, ttlMs, partMs)], other))) return { ...none, deletesNext };
  for (const resource of besides) {
    const holdMs = resource === 'a' ? 1 : 2 * partMs;
    const second = of(resource, use(10 + partMs / 4, ttlMs, holdMs));
    const attempts = await plays([use(10, ttlMs, partMs), second], other);
    if (isFree(attempts)) continue;
    const [, waiter] = attempts.filter(({ client }) => client === 'c1');
    const blocksBy = waiter?.trial?.sent.find(({ verb }) => WAITS_IN_REDIS.test(verb))?.verb ?? null;
    return { ...none, deletesNext, keeps: resource, blocksBy };
  }
  return { ...none, deletesNext };
}

/** Commands for whose answer all that is sent after them over the same connection waits. */
const WAITS_IN_REDIS = /^(?:b[lr]pop|brpoplpush|blmove|blmpop|bzpop(?:min|max)|bzmpop)$/i;

/** Asking Redis a few times takes less, ms. */
const AT_ONCE_MS = 20;

/**
 * Whether two calls of one object work at once, and another process gets in when the first of them is over: the key was that of both.
 *
 * @param isKeyed - Each call says what it is for, so that calls for one thing are kept apart: that they work at once is enough.
 */
async function losesOwn({ bench, hosts, how }: Runnable, ttlMs: number, isKeyed: boolean): Promise<boolean> {
  const { plan } = how;
  if (plan.use !== 'with' || how.nodes > 1 || !plan.path.some(({ kind }) => kind === 'new' || kind === 'call'))
    return false;
  const partMs = ttlMs / 4;
  const clients = [[use(10, ttlMs, 2 * partMs), use(10 + partMs / 4, ttlMs, 1)], [use(10 + partMs, ttlMs, 1)]];
  const schedule = calm(1, clients, (4 * ttlMs + REST_MS) * 1000);
  const attempts = await rehearse(bench, hosts, { ...how, plan: { ...plan, isOne: true } }, schedule);
  const [own, second] = attempts.filter(({ client, held }) => client === 'c1' && held !== null);
  const other = attempts.find(({ client, held }) => client === 'c2' && held !== null);
  if (own === undefined || second === undefined) return false;
  // A later call may be for the next period.
  if (second.trial?.key != null && second.trial.key !== own.trial?.key) return false;
  // What was made once may have a TTL of its own.
  const endMs = Math.min(own.releasedMs, own.acquiredMs + (own.trial?.ttlMs ?? ttlMs) - partMs);
  const isBeside = second.acquiredMs < endMs;
  // What has waited first may go on without the lock.
  const isAtOnce = second.acquiredMs - second.askedMs < AT_ONCE_MS;
  return isBeside && ((isKeyed && isAtOnce) || (other !== undefined && other.acquiredMs < endMs));
}

/** Whether the second acquisition of the one process is held while the other process acquires. */
function areBothHeld(attempts: readonly Attempt[]): boolean {
  const [, second] = attempts.filter(({ client }) => client === 'c1');
  const other = attempts.find(({ client }) => client === 'c2');
  return (
    second !== undefined &&
    other !== undefined &&
    second.acquiredMs < other.askedMs &&
    other.acquiredMs < second.releasedMs
  );
}

/**
 * What is handed the work, or gives something for each acquisition, promises to keep them apart. What says only whether it was
 * acquired promises that for different keys: a lock that takes the key with each call can have several.
 */
function besidesOf(how: Understood, [one, two]: readonly Attempt[]): readonly string[] {
  const { plan } = how;
  if (isOwnWork(how) || how.admits > 1 || !one?.held || !two?.held) return [];
  const differs = one.trial?.key !== two.trial?.key;
  const [first, second] = [one.held.result, two.held.result];
  const tellsApart = plan.use === 'with' || (isHandle(first) && first !== second);
  return [...(tellsApart ? ['a'] : []), ...(differs ? ['b'] : [])];
}

function isHandle(result: unknown): boolean {
  return (typeof result === 'object' && result !== null) || typeof result === 'function' || typeof result === 'string';
}
