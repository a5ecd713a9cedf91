import type { Plan } from './plan.js';
import { played } from './played.js';
import type { Runnable } from './subject.js';

/**
 * The arguments by which the callers of a lock say who they are, as `cart` in `hold(seat, cart)`: where one differs, the lock stores another
 * value under the same key. None where it stores a value of its own in each call.
 */
export async function ownersIn(subject: Runnable, plan: Plan, names: Iterable<string>): Promise<ReadonlySet<string>> {
  const owners = new Set<string>();
  const trialFor = async (differs: readonly string[]): Promise<{ key: string | null; value: string } | null> => {
    const [attempt] = await played(subject, [{ plan: { ...plan, differs: new Set(differs) }, atMs: 10 }]);
    return attempt?.trial ?? null;
  };
  const [usual, again] = [await trialFor([]), await trialFor([])];
  if (usual === null || usual.value === '' || usual.value !== again?.value) return owners;
  for (const name of names) {
    const other = await trialFor([name]);
    if (other !== null && other.key === usual.key && other.value !== usual.value) owners.add(name);
  }
  return owners;
}
