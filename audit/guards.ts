import type { Defect } from './defect.js';
import { takerIn } from './plan.js';
import type { FoundLock } from './understand.js';

/** A name that says that work is done once in a period, or for each firing. */
const ONCE_IN = /once(?:Per|In|A|An|Each|Every)[A-Z]/i;

/** What says that it guards a period, and gives the key back as soon as its work is done. */
export function guardDefects({ how, seen }: Pick<FoundLock, 'how' | 'seen'>): Defect[] {
  const name = takerIn(how.plan);
  const [first, second] = seen.next;
  if (!how.releases || !ONCE_IN.test(name) || first?.trial == null || second?.trial == null) return [];
  if (second.trial.key !== first.trial.key || second.held === null) return [];
  return [
    {
      id: 'guard-released',
      sentence: `${name} says that its work is done once, and it deletes the key as soon as that is done: another process whose timer fires a little later finds no key, and does the work again`,
      fix: 'put the period into the key, and leave the key there until all who may ask have asked: let its TTL end it',
      brings: ['belief'],
      property: 'mutual-exclusion',
      isShown: true,
    },
  ];
}
