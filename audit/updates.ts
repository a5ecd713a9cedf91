import type { Defect } from './defect.js';
import type { Plan } from './plan.js';
import { CALL_TTL_MS } from './played.js';
import type { Judged } from './refusal.js';
import { type Attempt, calm, REST_MS, rehearse, use } from './rehearsal.js';
import type { Said } from './said.js';
import { sharesWatch } from './shared-watch.js';
import { SHARES_WATCH } from './shown-defects.js';
import type { Runnable } from './subject.js';
import type { Trial } from './trial.js';

/** Updates over the one connection of their process are lost. */
const LOSES_UPDATES: Defect = {
  ...SHARES_WATCH,
  sentence:
    'all calls of a process send WATCH and EXEC over one shared connection: the EXEC (or UNWATCH) of one call ends the WATCH of another, whose transaction then succeeds though the watched key has changed in between, and one of the two changes is lost (a lost update)',
};

/** A transaction that was refused counts as done. */
const IGNORES_EXEC: Defect = {
  id: 'ignores-exec',
  sentence:
    'it does not look whether its transaction was carried out: EXEC answers null where a watched key has changed since WATCH, nothing is stored then, and its caller is told the same as the one whose change was made (a lost update)',
  fix: 'look at what exec() gives: where that is null, read again and try again, or tell the caller',
  brings: [],
  property: 'mutual-exclusion',
  isShown: true,
};

/** A value is read before its key is watched. */
const READS_BEFORE_WATCH: Defect = {
  ...IGNORES_EXEC,
  id: 'reads-before-watch',
  sentence:
    'it reads the value before it watches the key (WATCH comes after GET), and not again: a change between the two is not noticed by EXEC, and is overwritten by what was made of the old value (a lost update)',
  fix: 'send WATCH first, and read the value after that',
};

/** From the call of one process to that of the next, ms. */
const APART_MS: readonly number[] = [1, 2, 3, 4, 6, 9];

/** Calls an update in two processes, and in three, at nearly the same time. One whose EXEC is refused has to say so, or to try again. */
export async function judgeUpdates(subject: Runnable, plan: Plan, key: string): Promise<Judged> {
  const { bench, hosts, how } = subject;
  const shared = await sharesWatch(subject, plan);
  if (shared !== null) return { defect: LOSES_UPDATES, runs: 0, updates: 0 };
  const ttlMs = how.fixedTtlMs ?? CALL_TTL_MS;
  let [runs, updates] = [0, 0];
  for (const processes of [2, 3])
    for (const apartMs of APART_MS) {
      const uses = Array.from({ length: processes }, (_, i) => [use(10 + i * apartMs, ttlMs, 1)]);
      const schedule = calm(1, uses, (10 + REST_MS) * 1000);
      const attempts = await rehearse(bench, hosts, how, schedule, { naturally: true, planOf: () => plan });
      runs++;
      updates += attempts.filter(({ trial, error }) => error === null && changesIn(trial, key).length > 0).length;
      if (attempts.some((it) => readsBeforeWatch(it.trial, key))) return { defect: READS_BEFORE_WATCH, runs, updates };
      // The first to change the key is not refused.
      const [first] = attempts.toSorted((one, two) => changedMs(one, key) - changedMs(two, key));
      if (first !== undefined && attempts.some((it) => ignoresExec(it, first, key)))
        return { defect: IGNORES_EXEC, runs, updates };
    }
  return { defect: null, runs, updates };
}

/** What reads a value. */
const READS = /^(?:m?get|hm?get|hgetall|hexists|exists|strlen|l(?:range|len|index)|s(?:members|ismember|card)|z\w+)$/;

/** Whether a call reads a value that it changes before it watches its key, and not after that. */
function readsBeforeWatch(trial: Trial | null, key: string): boolean {
  const own = trial?.sent.filter(({ words }) => words.includes(key)) ?? [];
  const changed = own.findIndex(({ inMulti }) => inMulti === true);
  const before = own.slice(0, Math.max(0, changed));
  const watched = before.findLastIndex(({ verb }) => verb === 'watch');
  const isRead = ({ verb }: Said): boolean => READS.test(verb);
  return watched >= 0 && before.slice(0, watched).some(isRead) && !before.slice(watched).some(isRead);
}

/** When it sent its first change, ms; never comes last. */
function changedMs({ trial }: Attempt, key: string): number {
  return changesIn(trial, key)[0]?.atMs ?? Number.POSITIVE_INFINITY;
}

function changesIn(trial: Trial | null, key: string): Trial['sent'] {
  return trial?.sent.filter((it) => it.inMulti === true && it.key === key) ?? [];
}

/**
 * Whether the last transaction of a call was refused, as another call had changed its key since its WATCH, and it has returned what the
 * other one has.
 */
function ignoresExec(one: Attempt, other: Attempt, key: string): boolean {
  const { trial } = one;
  const [last] = changesIn(trial, key).slice(-1);
  const [change, ...more] = changesIn(other.trial, key);
  if (trial === null || last === undefined || change === undefined || more.length > 0) return false;
  const own = trial.sent.filter((it) => it.words.includes(key));
  const watched = own.filter(({ verb, atMs }) => verb === 'watch' && atMs < last.atMs).at(-1);
  const isRefused = watched !== undefined && watched.atMs < change.atMs && change.atMs < last.atMs;
  if (!isRefused || own.some(({ atMs, inMulti }) => atMs > last.atMs && inMulti !== true)) return false;
  const isDone = one.error === null && other.error === null && trial.status === (other.trial?.status ?? null);
  return isDone && saysTheSame(trial.returned, other.trial?.returned);
}

/** From here on a number is a time, or made up. */
const LARGE = 1e9;
/** The text of an id that was made up, or of a time. */
const IS_MADE_UP = /^(?=.*\d)[\w:.+-]{8,}$/;

/** Whether two results tell their callers the same, but for ids and times. */
function saysTheSame(one: unknown, two: unknown): boolean {
  if (Object.is(one, two)) return true;
  if (typeof one !== typeof two || one === null || two === null) return false;
  if (typeof one === 'number') return one > LARGE && Number(two) > LARGE;
  if (typeof one === 'string') return IS_MADE_UP.test(one) && IS_MADE_UP.test(String(two));
  if (typeof one !== 'object') return false;
  const [own, others] = [Object.entries(one), new Map(Object.entries(two as object))];
  return own.length === others.size && own.every(([name, it]) => others.has(name) && saysTheSame(it, others.get(name)));
}
