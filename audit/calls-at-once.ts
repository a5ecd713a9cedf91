import { takesNothing } from './attempts.js';
import { isWork, nameOfCall } from './called.js';
import type { Played } from './played.js';
import type { Attempt } from './rehearsal.js';
import type { Said } from './said.js';

/* What two calls of a function show that one process makes at once. */

/** Whether the second call does the work of the first one, and has asked for no lock. */
export function worksUnasked([first, second]: Played): boolean {
  const [own, other] = [first?.trial, second?.trial];
  if (
    own?.isGranted !== true ||
    other == null ||
    // One that has a name for each hour asks for another one later.
    other.sent.some(({ operation }) => operation === 'acquire')
  )
    return false;
  // What goes on when its call has returned is begun once for all calls.
  if (!own.worksAtMs.every((atMs) => atMs <= Number(first?.leftMs))) return false;
  const works = own.works.filter(isWork).map(nameOfCall);
  return other.calls.some((it) => isWork(it) && works.includes(nameOfCall(it)));
}

/** Whether the second call uses the data that the first one uses under its key, before that has released it. */
export function usesBeside([first, second]: Played): boolean {
  const [own, other] = [first?.trial, second?.trial];
  if (own == null || other == null || first?.error != null || second?.error != null) return false;
  const isOwn = ({ key }: Said): boolean => key === own.key;
  const from = own.sent.findIndex((it) => isOwn(it) && it.operation === 'acquire');
  const used = own.sent.slice(from).find((it) => it.key !== '' && !isOwn(it) && it.operation !== 'extend');
  const release = own.sent.find((it) => isOwn(it) && it.operation === 'release' && it.atMs >= own.grantedMs);
  const asked = other.sent.findIndex((it) => isOwn(it) && it.operation === 'acquire');
  if (used === undefined || release === undefined || asked < 0) return false;
  const isSame = ({ verb, key, atMs }: Said): boolean => verb === used.verb && key === used.key && atMs < release.atMs;
  return other.sent.slice(asked).some(isSame);
}

/** A call ends so soon after it has sent its release, ms. */
const AT_END_MS = 20;

/**
 * Whether the first call is released with the token of the second one of its process, which waits meanwhile: that deletes nothing, and
 * nobody gets the lock until its TTL is over.
 */
export function releasesOther(first: Attempt | undefined, second: Attempt | undefined): boolean {
  const [own, other] = [first?.trial, second?.trial];
  if (own?.isGranted !== true || other == null || own.key !== other.key || own.value === '') return false;
  const offered = other.sent.filter(({ operation, key }) => operation === 'acquire' && key === own.key);
  const values = offered.flatMap(({ value }) => (value === null || value === '' || value === own.value ? [] : [value]));
  // The second one may take back what it has offered: that is not at the end of the first.
  const leftMs = first?.leftMs ?? Number.NaN;
  const releases = [...own.sent, ...other.sent].filter(
    ({ operation, key, verb, atMs }) =>
      operation === 'release' && key === own.key && verb === 'script' && Math.abs(leftMs - atMs) < AT_END_MS,
  );
  const names = (values: readonly string[]): boolean =>
    releases.some(({ words }) => words.some((it) => values.some((value) => it.includes(value))));
  // A consumer takes the lock for each of its messages, with a token each.
  return new Set(values).size === 1 && names(values) && !names([own.value]);
}

/** Whether of two calls of one process, about different things, the key of one is never deleted: the release is that of the other. */
export function leavesOne([first, second]: Played): boolean {
  const trials = [first, second].flatMap((it) =>
    it?.trial?.isGranted === true && it.error === null && !takesNothing(it.trial) ? [it.trial] : [],
  );
  const keys = new Set(trials.map(({ key }) => key));
  if (keys.size < 2) return false;
  const released = new Set<string | null>(trials.flatMap(({ releases }) => releases.map(({ key }) => key)));
  const left = [...keys].filter((key) => !released.has(key));
  // A call whose work was short may keep its key on purpose: it marks what is done.
  return left.length === 1;
}

/** Whether another process gets in while the second call of the first has the same key, and its TTL lasts. */
export function getsInBeside(attempts: Played): boolean {
  const [, second] = attempts.filter((it) => it?.client === 'c1');
  const other = attempts.find((it) => it?.client === 'c2')?.trial;
  const own = second?.trial;
  if (second?.held == null || own?.isGranted !== true || other?.isGranted !== true) return false;
  return other.key === own.key && other.grantedMs < Math.min(second.leftMs, own.grantedMs + (own.ttlMs ?? 0));
}

/**
 * Whether a call begins with its work while the first one of its process awaits the first part of its own, and has its key. What a call
 * that is refused does otherwise is no work.
 *
 * @param takesMs - What each part takes.
 */
export function worksBeside(first: Attempt | undefined, second: Attempt | undefined, takesMs: number): boolean {
  const [own, other] = [first?.trial, second?.trial];
  if (!own || !other || own.key !== other.key) return false;
  const release = [...own.sent, ...other.sent].find((it) => it.operation === 'release' && it.key === own.key);
  const [beginMs = Number.NaN] = own.worksAtMs;
  const endMs = Math.min(beginMs + takesMs, release?.atMs ?? Number.NaN);
  const [beginning] = own.works;
  // What each of them does is heard of as that of either.
  const works = [...own.works, ...other.works].filter(isWork);
  if (works.length === 0 || works.some((it) => works.filter((one) => one === it).length < 2)) return false;
  return other.works.some((it, i) => it === beginning && (other.worksAtMs[i] ?? Number.NaN) < endMs);
}

/** Whether each call of the first process has done all that a call does which is `alone`. */
export function isDoneByEach(calls: Played, [alone]: Played): boolean {
  const own = calls.filter((it) => it?.client === 'c1');
  const works = own.flatMap((it) => it?.trial?.works ?? []);
  const timesIn = (all: readonly string[], work: string): number => all.filter((it) => it === work).length;
  const ofOne = (alone?.trial?.works ?? []).filter(isWork);
  return ofOne.every((it) => timesIn(works, it) >= own.length * timesIn(ofOne, it));
}
