import type { Fault, LockPlan, Schedule } from '../scenarios/index.js';
import { isOwnWork } from './cases.js';
import { isLostInFailover } from './failover.js';
import type { Hosts } from './hosts.js';
import type { Bench } from './load.js';
import type { Understood } from './plan.js';
import { type Attempt, calm, rehearse, use } from './rehearsal.js';
import type { Said } from './said.js';
import { type TwoTasks, twoTasks } from './tasks.js';

/** What was seen of a lock while it was used with nothing in its way. */
export interface Seen extends Omit<TwoTasks, 'besides'> {
  /** One acquisition by itself. */
  readonly alone: Attempt;
  /** Two of two processes: the second asks while the first holds the lock. */
  readonly both: readonly Attempt[];
  /** The lock was held for three TTLs; `null` where that was not tried. */
  readonly renewed: Attempt | null;
  /** It was extended while it was held; `null` where it cannot be. */
  readonly extended: Attempt | null;
  /** The work threw; `null` where that was not tried. */
  readonly thrown: Attempt | null;
  /** How long a function's own work takes, ms; `null` where it is handed work. */
  readonly ownWorkMs: number | null;
  /** No majority of so many nodes was there; `null` where it did not come to that. */
  readonly unreached: { readonly attempt: Attempt; readonly nodes: number } | null;
  /** It goes on as the holder where a minority of its nodes extends its key, and not where none does. */
  readonly extendsByFew: boolean;
  /** One held the lock and released it, and another asked after that, before the TTL of the first was over. */
  readonly next: readonly Attempt[];
  /** It waits for a replica, and is held without: a failover gives it to another process. */
  readonly lostInFailover: boolean;
  /** It went on to extend its key for long after a release that had failed. */
  readonly extendsOn: boolean;
}

/** What a lock is asked for at first: a TTL that nobody is likely to have written down, ms. */
export const FIRST_TTL_MS = 7_000;

/** A key that is made of the time is another one so much later, ms. */
const LATER_MS = 86_400_000;

/** Calls are given so long to come to an end, ms. */
const REST_MS = 60_000;

/** Uses a lock in several ways with nothing in its way, and keeps what is seen of it. */
export async function examine(
  bench: Bench,
  hosts: Hosts,
  how: Understood,
  alone: Attempt,
): Promise<{ readonly how: Understood; readonly seen: Seen }> {
  const ttlMs = how.fixedTtlMs ?? FIRST_TTL_MS;
  const partMs = ttlMs / 3;
  const plays = (...clients: readonly LockPlan[]): Schedule =>
    calm(
      how.nodes,
      clients.map((it) => [it]),
      (Math.max(...clients.map(({ atUs }) => atUs / 1000)) + 8 * ttlMs + 2 * REST_MS) * 1000,
    );
  const ownWork = isOwnWork(how);
  const [renewed] = ownWork ? [] : await rehearse(bench, hosts, how, plays(use(10, ttlMs, 3 * ttlMs)));
  const [late] = ownWork ? [] : await rehearse(bench, hosts, how, plays(use(10, ttlMs, 0.95 * ttlMs)));
  const known = {
    ...how,
    renews: renewed !== undefined && isRenewed(renewed, ttlMs),
    rejectsLate: alone.releaseError === null && (late?.releaseError ?? null) !== null,
  };
  const later = await rehearse(bench, hosts, known, plays(use(ttlMs + LATER_MS, ttlMs, 1)));
  const keyVaries = later[0]?.trial?.key !== alone.trial?.key;
  let unreached: Seen['unreached'] = null;
  // Half of an even number is where a majority is counted wrongly.
  for (const nodes of how.isOpen && how.nodes > 3 ? [how.nodes, how.nodes - 1] : [how.nodes]) {
    const [, attempt] = await rehearse(bench, hosts, known, withoutNodes(nodes, ttlMs));
    if (attempt !== undefined && (unreached === null || attempt.held !== null)) unreached = { attempt, nodes };
  }
  const cut = async (dead: number): Promise<boolean> => {
    const [attempt] = await rehearse(bench, hosts, known, withDying(how.nodes, dead, ttlMs));
    return attempt?.believes ?? true;
  };
  const extendsByFew =
    how.nodes > 1 && known.renews && !(await cut(how.nodes)) && (await cut(Math.floor(how.nodes / 2) + 1));
  const next = await rehearse(bench, hosts, known, plays(use(10, ttlMs, partMs / 4), use(10 + partMs, ttlMs, 1)));
  const both = await rehearse(
    bench,
    hosts,
    known,
    plays(use(10, ttlMs, partMs), use(10 + partMs / 2, ttlMs, partMs / 4)),
  );
  const extensions = [{ afterUs: Math.round(partMs * 500), ttlMs }];
  const [extended] =
    how.plan.use === 'pair'
      ? await rehearse(bench, hosts, known, plays({ ...use(10, ttlMs, partMs), extensions }))
      : [];
  const [thrown] =
    how.plan.use === 'with' ? await rehearse(bench, hosts, known, plays(use(10, ttlMs, partMs)), { throws: true }) : [];
  const [unreleased] = known.renews ? await rehearse(bench, hosts, known, withoutRelease(how.nodes, ttlMs)) : [];
  const [natural] = ownWork ? await rehearse(bench, hosts, known, plays(use(10, ttlMs, 1)), { naturally: true }) : [];
  const { besides, ...tasks } = await twoTasks(bench, hosts, known, ttlMs);
  return {
    how: { ...known, keyVaries, besides },
    seen: {
      ...tasks,
      lostInFailover: known.waits && !ownWork && (await isLostInFailover(bench, hosts, known, ttlMs)),
      alone,
      both,
      renewed: renewed ?? null,
      extended: extended ?? null,
      thrown: thrown ?? null,
      ownWorkMs: workIn(natural),
      unreached,
      extendsByFew,
      next,
      extendsOn: unreleased !== undefined && isExtendedOn(unreleased, ttlMs),
    },
  };
}

/** So many nodes die that no majority is left, while a client has nothing to do, which then asks again. */
function withoutNodes(nodes: number, ttlMs: number): Schedule {
  const again = 2 * ttlMs + 10_000;
  const schedule = calm(nodes, [[use(10, ttlMs, 100), use(again, ttlMs, 100)]], (again + ttlMs + 2 * REST_MS) * 1000);
  const die = (_: unknown, i: number): Fault => ({
    kind: 'crash',
    node: `n${i}`,
    atUs: again * 1000 - 1_000_000,
    restartAfterUs: null,
  });
  return { ...schedule, faults: Array.from({ length: Math.ceil(nodes / 2) }, die) };
}

/** So many nodes die for good while a lock is held for three TTLs. */
function withDying(nodes: number, dead: number, ttlMs: number): Schedule {
  const schedule = calm(nodes, [[use(10, ttlMs, 3 * ttlMs)]], (8 * ttlMs + REST_MS) * 1000);
  const die = (_: unknown, i: number): Fault => ({
    kind: 'crash',
    node: `n${i}`,
    atUs: Math.round(ttlMs * 500),
    restartAfterUs: null,
  });
  return { ...schedule, faults: Array.from({ length: dead }, die) };
}

/** All nodes are dead for so long when a lock is released that no client tries again, ms. */
const DEAD_MS = 40_000;

function withoutRelease(nodes: number, ttlMs: number): Schedule {
  const holdMs = ttlMs / 2;
  const schedule = calm(nodes, [[use(10, ttlMs, holdMs)]], (DEAD_MS + 8 * ttlMs + REST_MS) * 1000);
  const die = (_: unknown, i: number): Fault => ({
    kind: 'crash',
    node: `n${i}`,
    atUs: Math.round(holdMs * 1000),
    restartAfterUs: DEAD_MS * 1000,
  });
  return { ...schedule, faults: Array.from({ length: nodes }, die) };
}

function isExtendedOn({ trial, releasedMs, releaseError }: Attempt, ttlMs: number): boolean {
  const longAfter = releasedMs + DEAD_MS + 2 * ttlMs + 5_000;
  const isExtension = (it: Said): boolean => it.operation === 'extend' && it.key === trial?.key && it.atMs > longAfter;
  return releaseError !== null && (trial?.sent.some(isExtension) ?? false);
}

/** It was extended later than as it was acquired. */
function isRenewed({ trial, acquiredMs }: Attempt, ttlMs: number): boolean {
  return (
    trial?.sent.some((it) => it.operation === 'extend' && it.key === trial.key && it.atMs > acquiredMs + ttlMs / 20) ??
    false
  );
}

function workIn(natural: Attempt | undefined): number | null {
  const trial = natural?.trial ?? null;
  return trial === null || Number.isNaN(trial.endedMs) ? null : trial.endedMs - trial.grantedMs;
}
