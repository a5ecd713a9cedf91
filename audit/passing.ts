import { isWork } from './called.js';
import { conditions } from './conditions.js';
import type { Bench } from './load.js';
import { type Attempt, heldNow } from './rehearsal.js';

/** So many conditions may come before the work of a function. */
const MOST_PASSED = 8;

/**
 * Makes a run again where it has left early, without the condition on which it did, and leaves `bench` so if it takes the lock then and
 * did not before, or does more work under it.
 *
 * @param before - A run as `bench` is now.
 */
export async function withPassed(bench: Bench, before: Attempt, run: () => Promise<Attempt | null>): Promise<Attempt> {
  const { passed: kept } = bench;
  let [best, known] = [before, kept];
  for (let round = 0; round <= MOST_PASSED; round++) {
    const fired: { readonly id: string; readonly whileHeld: boolean }[] = [];
    const others = new Set<string>();
    conditions.noted = (id, isTrue) => {
      if (isTrue) fired.push({ id, whileHeld: heldNow(bench) !== null });
      else others.add(id);
    };
    const again = await run().finally(() => {
      conditions.noted = null;
    });
    if (again !== null && isBetter(again, best)) [best, known] = [again, bench.passed];
    // The last one keeps it from the rest. One that was false once depends on what is known: whether a lock was granted.
    const isHeld = again?.trial?.isGranted === true;
    const last = fired.findLast(({ id, whileHeld }) => whileHeld === isHeld && !others.has(id));
    if (again === null || last === undefined || (!isHeld && again.trial?.key != null)) break;
    bench.passed = new Set([...bench.passed, last.id]);
  }
  bench.passed = known;
  return best;
}

function isBetter(one: Attempt, two: Attempt): boolean {
  if (one.trial?.isGranted !== true) return false;
  if (two.trial?.isGranted !== true) return true;
  const asked = ({ trial }: Attempt): number => trial?.sent.filter((it) => it.operation === 'acquire').length ?? 0;
  const works = ({ trial }: Attempt): number => trial?.works.filter(isWork).length ?? 0;
  const isSame = one.trial.key === two.trial.key && asked(one) === asked(two);
  return isSame && (one.error === null || two.error !== null) && works(one) > works(two);
}
