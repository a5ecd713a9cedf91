import type { Defect } from './defect.js';
import { nameOfPlan, type Plan } from './plan.js';
import { once, played } from './played.js';
import type { Attempt } from './rehearsal.js';
import type { Said } from './said.js';
import { LOCKS_AS_CALLED } from './shown-defects.js';
import type { Runnable } from './subject.js';

/** Arguments of which two are exchanged. */
const MOST_NAMES = 4;

/** A call that asks for a key so often, for so long, ms, waits for it. */
const ASKS = 3;
const WAITS_MS = 300;

/**
 * What is wrong where a function takes the locks of two of its arguments: another call, with the same two the other way round, may
 * take them in the opposite order.
 */
export async function oppositeCalls(subject: Runnable, plan: Plan): Promise<Defect | null> {
  const [alone] = await played(subject, [{ plan, atMs: 10 }]);
  const names = [...(alone?.trial?.names ?? [])].slice(0, MOST_NAMES);
  if (alone === undefined || new Set(asksOf(alone).map(({ key }) => key)).size < 2) return null;
  for (const one of names)
    for (const two of names.slice(names.indexOf(one) + 1)) {
      const swaps = new Map([
        [one, two],
        [two, one],
      ]);
      const [own, other] = await played(subject, [
        { plan, atMs: 10 },
        { plan: { ...plan, swaps }, atMs: 10 },
      ]);
      if (waitFor(own, other) && waitFor(other, own))
        return { ...LOCKS_AS_CALLED, sentence: `${nameOfPlan(plan)} ${LOCKS_AS_CALLED.sentence}` };
    }
  return null;
}

function asksOf({ trial }: Attempt): readonly Said[] {
  return trial?.sent.filter(({ operation, key }) => operation === 'acquire' && key !== '') ?? [];
}

/** Whether a call has the key that it asked for first, and waits meanwhile for the one that the other has asked for first. */
function waitFor(own: Attempt | undefined, other: Attempt | undefined): boolean {
  if (own?.trial?.isGranted !== true || other === undefined) return false;
  const { trial } = own;
  const [wanted] = asksOf(other);
  if (wanted === undefined || wanted.key === trial.key) return false;
  const releasedMs = trial.sent.find(({ operation, key }) => operation === 'release' && key === trial.key)?.atMs;
  const asks = asksOf(own).filter(({ key, atMs }) => key === wanted.key && atMs <= (releasedMs ?? atMs));
  const [first, last] = [asks[0], asks.at(-1)];
  return first !== undefined && last !== undefined && asks.length >= ASKS && last.atMs - first.atMs >= WAITS_MS;
}

/** Some of several locks are kept. */
const KEEPS_SOME: Defect = {
  id: 'leaves-key',
  sentence:
    'it takes several locks one after the other, and where it does not get one of them, it fails and does not release those that it has got before: they stay locked until their TTL is over, and nobody works under them',
  fix: 'release what has been acquired so far where a later lock is refused (try/catch around the loop that takes them)',
  brings: ['unavailable', 'leak'],
  property: 'deadlock-free',
  isShown: true,
};

/** A function is asked for the locks of so many things. */
const NAMES = 2;

/** Whether a function that takes several locks, and does not get the last of them, keeps the others. */
export async function keepsSome(subject: Runnable, plan: Plan): Promise<Defect | null> {
  const alone = await once(subject, plan, { names: NAMES });
  const keys =
    alone === undefined ? [] : [...new Set(asksOf(alone).map(({ key }) => key))].filter((it) => releases(alone, it));
  const [first, last] = [keys[0], keys.at(-1)];
  if (alone?.error !== null || first === undefined || last === undefined || first === last) return null;
  const taken = ['set', last, 'another', 'PX', '86400000'];
  const bench = { ...subject.bench, stored: [...subject.bench.stored, taken] };
  const refused = await once({ ...subject, bench }, plan, { names: NAMES });
  if (refused === undefined || refused.error === null || releases(refused, first)) return null;
  return asksOf(refused).some(({ key }) => key === first) ? KEEPS_SOME : null;
}

function releases({ trial }: Attempt, key: string): boolean {
  return trial?.releases.some((it) => it.key === key) ?? false;
}
