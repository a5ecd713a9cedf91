import type { Attempt } from './rehearsal.js';
import { type Said, setsAnyway } from './said.js';
import { CHANGES_DATA } from './touches.js';
import type { Trial } from './trial.js';

/* What one acquisition shows. */

/** The key of a value without an end that it changes where nobody has changed it since it was read; `null` for none. */
export function optimisticIn({ trial }: Pick<Attempt, 'trial'>): string | null {
  if (trial === null) return null;
  const { key, sent } = trial;
  // It may change a hash or a list, and set a key beside that.
  const watchedKeys = new Set(sent.flatMap(({ verb, words }) => (verb === 'watch' ? words.slice(1) : [])));
  const isChange = (it: Said): boolean => it.inMulti === true && it.key !== key && CHANGES_DATA.test(it.verb);
  const changed = sent.find((it) => isChange(it) && watchedKeys.has(it.key));
  if (key === null || changed !== undefined) return changed?.key ?? null;
  const own = sent.filter((it) => it.key === key);
  const watched = own.findIndex(({ verb }) => verb === 'watch');
  const set = own.findIndex(({ operation, inMulti }) => operation === 'acquire' && inMulti === true);
  const ends = own.some(({ operation, ttlMs }) => operation === 'release' || ttlMs !== null);
  return watched >= 0 && set > watched && own[set]?.ifNew === false && !ends ? key : null;
}

/** How many nodes were asked for the lock, or told that it is free: who has a majority need ask no more of them. */
export function nodesOf({ trial }: Attempt): number {
  const isOwn = ({ operation, key }: Said): boolean =>
    operation === 'acquire' || (operation === 'release' && key === trial?.key);
  return new Set(trial?.sent.filter(isOwn).map(({ node }) => node)).size;
}

/** Whether it still asks for the lock, though its call has returned. */
export function asksOn(attempt: Attempt | undefined): boolean {
  const { trial, returnedMs } = attempt ?? {};
  const isLater = ({ operation, atMs }: Said): boolean => operation === 'acquire' && atMs > Number(returnedMs);
  return trial?.sent.some(isLater) ?? false;
}

/** Whether it was granted, and its call gave something that is held. */
export function isTaken(attempt: Attempt): boolean {
  return isGranted(attempt) && attempt.held !== null;
}

/** Whether it was granted some time: one that asks for its lock in the background may have lost it since. */
export function isGranted({ trial }: Attempt): boolean {
  return trial !== null && !Number.isNaN(trial.grantedMs);
}

/** Whether it has asked for a key. */
export function setsKey({ trial }: Attempt): boolean {
  return trial?.sent.some(({ operation }) => operation === 'acquire') ?? false;
}

/** Whether a function that is handed work calls it when its lock is released, and does other work under the lock. */
export function isCalledAfter({ trial, acquiredMs }: Attempt): boolean {
  const release = trial?.releases.find(({ key }) => key === trial.key);
  if (trial == null || release === undefined || release.atMs > acquiredMs) return false;
  return trial.worksAtMs.some((atMs) => atMs >= trial.grantedMs && atMs <= release.atMs);
}

/** Whether it deletes its key. */
export function releasesIn({ trial }: Attempt): boolean {
  if (trial === null) return false;
  // One that deletes what has its own token means its own key, whichever it names.
  return trial.releases.some((it) => it.key === trial.key || it.words.includes(trial.value));
}

/** Whether it waits for a replica. */
export function waitsIn({ trial }: Attempt): boolean {
  return trial?.sent.some(({ verb }) => verb === 'wait') ?? false;
}

/** Whether a command stores a value whatever is there, as that of a cache, and takes nothing by that. */
export function isStore(said: Said): boolean {
  return said.operation === 'acquire' && (setsAnyway(said) || (said.verb === 'script' && !said.ifNew));
}

/** Whether nothing that it sends asks for a key that nobody has, and nothing gives one up: it stores what others read. */
export function takesNothing({ sent }: Trial): boolean {
  const stores = sent.filter(({ operation }) => operation === 'acquire' || operation === 'release');
  return stores.length > 0 && stores.every(isStore);
}
