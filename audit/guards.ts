import type { Defect } from './defect.js';
import { takerIn } from './plan.js';
import type { FoundLock } from './understand.js';

/** A name that says that work is done once in a period, or for each firing. */
const ONCE_IN = /once(?:Per|In|A|An|Each|Every)[A-Z]/i;

/** What looks whether its work was done, does it, and says only then that it is done. */
function doneFirst({ how, seen }: Pick<FoundLock, 'how' | 'seen'>): Defect[] {
  const { trial } = seen.alone;
  if (trial === null || how.releases || how.plan.use !== 'handler') return [];
  const own = ({ key }: { readonly key: string }): boolean => key === trial.key;
  const looked = trial.sent.findIndex((it) => own(it) && ['get', 'exists'].includes(it.verb));
  const set = trial.sent.findIndex((it) => own(it) && it.operation === 'acquire');
  const isBetween = (after: number): boolean => after > looked && after <= set;
  if (looked < 0 || set < looked || !trial.worksAfter.some(isBetween) || trial.worksAfter.some((it) => it > set))
    return [];
  const [verb, sets] = [trial.sent[looked], trial.sent[set]].map((it) => it?.verb.toUpperCase());
  return [
    {
      id: 'done-before-guard',
      sentence: `it looks at its key (${verb}), does its work, and sets the key only after that (${sets}): of two that ask at once both find none and do it, and one that is asked again after a crash in between does it twice`,
      fix: 'set the key before the work, only where there is none (SET … NX), and store the answer there afterwards',
      brings: ['belief'],
      property: 'mutual-exclusion',
      isShown: true,
    },
  ];
}

/** What says that it guards a period, and gives the key back as soon as its work is done. */
export function guardDefects({ how, seen }: Pick<FoundLock, 'how' | 'seen'>): Defect[] {
  const done = doneFirst({ how, seen });
  if (done.length > 0) return done;
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
