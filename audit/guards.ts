import type { Claims } from './claims.js';
import type { Defect } from './defect.js';
import { takerIn } from './plan.js';
import type { Trial } from './trial.js';
import type { FoundLock } from './understand.js';
import { LOOKS_FOR } from './unknown.js';

/** A name that says that work is done once in a period, or for each firing. */
const ONCE_IN = /once(?:Per|In|A|An|Each|Every)[A-Z]/i;

/** A request that only reads, by what is called and its address. */
const IS_READ = /^(?:\w+\.)*(?:fetch|axios\.get)\s+https?:/;

/** What looks whether its work was done, does it, and says only then that it is done. */
function doneFirst({ how, seen }: Pick<FoundLock, 'how' | 'seen'>): Defect[] {
  const { trial } = seen.alone;
  if (trial === null || how.releases || how.plan.use !== 'handler') return [];
  // What only reads may be done twice.
  if (trial.calls.every((it) => IS_READ.test(it))) return [];
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

/** A lock for so long is a guard, ms. */
const LONG_MS = 3_600_000;

/** A period in a key: its year and month at least. */
const PERIOD = /(?<!\d)2\d{3}(?:[-/._]?(?:0[1-9]|1[0-2]))(?!\d{4})/;

/** Whether nothing but its key says whether the work was done: no other key, and no look elsewhere. */
function looksAtNothing({ key, sent, works, grantedMs }: Trial): boolean {
  const looks = sent.some((it) => it.atMs >= grantedMs && it.key !== '' && it.key !== key);
  return !looks && !works.some((it) => LOOKS_FOR.test(it));
}

/** Whether a key has a period in it, and is there for long. */
function isOfPeriod({ key, ttlMs }: Trial): boolean {
  return key !== null && PERIOD.test(key) && (ttlMs ?? 0) >= LONG_MS;
}

/** Work that reaches people each time that it is done. */
const SENDS =
  /(?:send|post|push|deliver|dispatch)\w*(?:mail|sms|text|message|notification|digest|newsletter|report|reminder)|(?:mail|sms|slack|notif|postmark|sendgrid|resend|transport)\w*\.(?:send|post|push|deliver|notify)|^\.(?:send|deliver|notify)$/i;

/** What says or shows that work is done once in a period; `null` for nothing. */
function onceBy(name: string, trial: Trial, { claim, daily, adds }: Claims): string | null {
  if (ONCE_IN.test(name)) return `${name} says that its work is done once`;
  if (!looksAtNothing(trial)) return null;
  if (isOfPeriod(trial))
    return `its key is that of a period (${JSON.stringify(trial.key)}), for which its work is done once`;
  if (claim !== null) return `its comment says that its work is done once in a period ("${claim}")`;
  const sends = trial.works.find((it) => SENDS.test(it))?.replace(/^.*\./, '');
  const again = adds === null ? sends && `sends again (${sends})` : `changes ${adds} again`;
  if (daily === null || again === undefined) return null;
  return `its timer fires once in a period (${JSON.stringify(daily)}), and each run of its work ${again}`;
}

/** What says that it guards a period, and deletes its key as soon as its work is done. */
export function guardDefects({ how, seen }: Pick<FoundLock, 'how' | 'seen'>): Defect[] {
  const done = doneFirst({ how, seen });
  if (done.length > 0) return done;
  const [first, second] = seen.next;
  if (!how.releases || first?.trial == null || second?.trial == null) return [];
  if (second.trial.key !== first.trial.key || second.held === null) return [];
  const isPeriod = looksAtNothing(first.trial) && isOfPeriod(first.trial);
  const says = onceBy(takerIn(how.plan), first.trial, seen);
  if (says === null) return [];
  return [
    {
      id: 'guard-released',
      sentence: `${says}, and it deletes the key as soon as that is done: another process whose timer fires a little later finds no key, and does the work again`,
      fix: `${isPeriod ? '' : 'put the period into the key, and '}leave the key there until all who may ask have asked: let its TTL end it`,
      brings: ['belief'],
      property: 'mutual-exclusion',
      isShown: true,
    },
  ];
}
