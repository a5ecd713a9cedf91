import { type Commands, type Defect, EXCLUSION } from './defect.js';
import type { Said } from './said.js';
import type { Trial } from './trial.js';
import type { FoundLock } from './understand.js';

/** Whether its key was watched for a command, and read after that. */
function isWatched(sent: readonly Said[], at: number): boolean {
  const before = sent.slice(0, at).filter(({ key }) => key === sent[at]?.key);
  return before.at(-2)?.verb === 'watch' && before.at(-1)?.verb === 'get';
}

/** What a process does to the key that another one holds. */
export function refusedDefects({ both }: FoundLock['seen']): Defect[] {
  const trial = both[1]?.trial ?? null;
  const sent = trial?.sent ?? [];
  const done = (operation: Said['operation']): Said | undefined =>
    sent.find(
      ({ operation: what, key, compares, words, atMs }, i) =>
        what === operation &&
        key === trial?.key &&
        !compares &&
        !isWatched(sent, i) &&
        !(atMs >= trial.grantedMs) &&
        // A TTL where there is none yet.
        !words.some((it) => /^nx$/i.test(it)),
    );
  const [deletion, extension] = [done('release'), done('extend')];
  const [deletes, extend] = [deletion, extension].map((it) => it?.verb.toUpperCase());
  const at = deletion === undefined ? 0 : sent.indexOf(deletion);
  const own = (all: readonly Said[]): readonly Said[] => all.filter(({ key }) => key === trial?.key);
  const looksFirst = own(sent.slice(0, at)).some(({ verb }) => verb === 'get');
  const takesOver = looksFirst && own(sent.slice(at)).some(({ operation }) => operation === 'acquire');
  const found: Defect[] = [];
  if (deletes !== undefined)
    found.push({
      id: 'refused-release',
      ...(takesOver
        ? {
            sentence: `a process that was refused the key reads it, deletes it and asks again, to take over a stale lock, by several commands (GET, then ${deletes}), which is not atomic: of two that have read the old value, one deletes the new key of the other, and both have the lock`,
            fix: 'delete the key only where it still has the value that was read: a Lua script, or DELEX … IFEQ; or give it a TTL, so that nobody has to take it over',
          }
        : {
            sentence: `a process that was refused the key deletes it all the same, without looking whose it is (${deletes}): its holder works on, and a third process gets the lock`,
            fix: 'release only what was acquired, and delete the key only where it still has your token: a Lua script, or DELEX … IFEQ',
          }),
      brings: EXCLUSION,
      isShown: true,
      verb: deletes,
      takes: 'deleted',
    });
  if (extend !== undefined)
    found.push({
      id: 'refused-extension',
      sentence: `a process that was refused the key gives it a new TTL all the same (${extend}): for as long as others ask, the key of a process that has died does not end`,
      fix: 'give the key its TTL where it is set, and only there: SET key token NX PX ttl',
      brings: ['state', 'lifetime', 'unavailable'],
      isShown: true,
      verb: extend,
    });
  return found;
}

/** A release that is sent too early, or does not delete. */
function releaseCalls({ alone, next, handsBack }: FoundLock['seen'], { plan }: FoundLock['how']): Defect[] {
  const { trial } = alone;
  const early = trial?.sent.find(
    (it) =>
      it.operation === 'release' &&
      it.key === trial.key &&
      it.atMs >= trial.grantedMs &&
      it.atMs < Math.min(alone.releasedMs, trial.grantedMs + (trial.ttlMs ?? Number.POSITIVE_INFINITY) / 2),
  );
  if (plan.use === 'with' && early !== undefined)
    return [
      {
        id: 'releases-early',
        sentence:
          'it releases the lock before its work is done: it does not wait for the promise that the work has returned',
        fix: 'await the work before the release: return await fn() in try … finally',
        brings: EXCLUSION,
        isShown: true,
        takes: 'deleted',
      },
    ];
  const [one, two] = next;
  if (one?.trial == null || two?.trial == null || one.held === null || one.releaseError !== null) return [];
  const { value, grantedMs, ttlMs, endedMs } = one.trial;
  const doneMs = Number.isNaN(endedMs) ? one.releasedMs : Math.min(endedMs, one.releasedMs);
  const sent = one.trial.sent.filter(({ atMs }) => atMs >= doneMs);
  // Where another function releases, it may be that it was handed something else than it wants: its token shows that it was not.
  const isUnderstood =
    plan.use !== 'pair' || plan.give === null || handsBack || sent.some(({ words }) => words.includes(value));
  const isFree = two.trial.grantedMs < grantedMs + (ttlMs ?? Number.POSITIVE_INFINITY);
  const asked = two.trial.sent.find(({ operation, key }) => operation === 'acquire' && key === two.trial?.key);
  if (isFree || two.trial.refusals === 0 || asked === undefined || asked.atMs < one.releasedMs) return [];
  if (!isUnderstood || sent.length === 0) return [];
  return [
    {
      id: 'never-frees',
      sentence: `its release does not delete its key, though nothing is in its way: ${whyKept(one.trial, sent)}, and nobody gets the lock before its TTL is over`,
      fix: 'compare what was stored, in the form in which that was done (no hex of bytes); look whether KEYS and ARGV of the script, from 1, are what is handed to it, and throw where it does not answer 1',
      brings: ['leak', 'lifetime', 'unavailable'],
      isShown: true,
    },
  ];
}

/** Why a release does nothing: it names the key without the prefix of its client, or compares something else. */
function whyKept({ key }: Trial, sent: readonly Said[]): string {
  const isEnd = (it: string): boolean => /[:/.{-]/.test(it) && it !== key && key?.endsWith(it) === true;
  const script = sent.find(({ verb, words }) => verb === 'script' && words.slice(3).some(isEnd));
  const at = script?.words.findIndex((it, i) => i > 2 && isEnd(it)) ?? -1;
  if (script === undefined || at < 0) return 'what it compares never matches';
  const isArgument = at >= 3 + Number(script.words[2]);
  const why = isArgument ? ' (a client puts its keyPrefix before KEYS of a script, and not before ARGV)' : '';
  return `it looks at ${JSON.stringify(script.words[at])}, and its key is ${JSON.stringify(key)}${why}`;
}

/** An argument as a number, by itself or by a name. */
const AS_NUMBER = /(?:\blocal\s+(\w+)\s*=\s*)?\btonumber\s*\(\s*ARGV\[(\d+)\]\s*\)/g;

/** Whether a script compares its token as a number, which that is not. */
function comparesNumbers({ verb, words }: Said, token: string): boolean {
  const [, text = '', keys] = words;
  if (verb !== 'script' || !Number.isNaN(Number(token))) return false;
  return [...text.matchAll(AS_NUMBER)].some(([number, name = 'token_as_number', nth]) => {
    if (words[2 + Number(keys) + Number(nth)] !== token) return false;
    const compared = new RegExp(String.raw`\b${name}\s*[=~]=|[=~]=\s*${name}\b`);
    return compared.test(text.replaceAll(number, name));
  });
}

/** What is wrong with the release of a lock. */
export function releaseDefects(
  { trial, releases, readAt, watchedAt }: Commands,
  seen: FoundLock['seen'],
  how: FoundLock['how'],
): Defect[] {
  const plain = releases.find(({ verb, compares }) => verb !== 'script' && !compares);
  if (!how.releases) return [];
  const calls = releaseCalls(seen, how);
  if (releases.some((it) => comparesNumbers(it, trial.value)))
    return [
      ...calls,
      {
        id: 'blind-release',
        sentence:
          'its release compares its token as a number (tonumber), which it is not: nil equals nil, so that it deletes whichever key is there, that of the next holder too',
        fix: 'compare the texts: GET KEYS[1] == ARGV[1], without tonumber',
        brings: EXCLUSION,
        isShown: false,
        takes: 'deleted',
      },
    ];
  // Who has watched the key before it read it is told of what happens in between.
  if (plain === undefined || (watchedAt >= 0 && readAt > watchedAt)) return calls;
  const verb = plain.verb.toUpperCase();
  const takes = 'deleted';
  if (readAt >= 0)
    return [
      ...calls,
      {
        id: 'two-step-release',
        sentence:
          watchedAt < 0
            ? `its release compares and deletes with two commands (GET, then ${verb}): between them the key can expire and become another's, whose lock is then deleted`
            : `its release compares before it watches (GET, then WATCH, then ${verb}): between them the key can expire and become another's, whose lock is then deleted`,
        fix: `compare and delete in one step: a Lua script, or DELEX … IFEQ${watchedAt < 0 ? '' : '; or WATCH before GET'}`,
        brings: EXCLUSION,
        isShown: seen.deletesLate,
        verb,
        takes,
      },
    ];
  if (watchedAt >= 0) return calls;
  if (refusedDefects(seen).some((it) => it.verb === verb)) return calls;
  return [
    ...calls,
    {
      id: 'blind-release',
      sentence: `its release deletes the key without looking whose it is (${verb}): where the work outlasts the TTL, it deletes the lock of the next holder`,
      fix: 'delete the key only where it still has your token: a Lua script, or DELEX … IFEQ',
      brings: EXCLUSION,
      isShown: false,
      verb,
      takes,
    },
  ];
}

const BOTH_IN: Defect = {
  id: 'lets-tasks-in',
  sentence:
    'it lets two tasks of one process in at once: for a key that the process has already, each caller is told that it has it, as if it were a nested (re-entrant) call of the one that holds it',
  fix: 'tell a nested call from another caller, by a token that it hands over or an AsyncLocalStorage; refuse the others',
  brings: ['belief'],
  isShown: true,
};

/** The connection of a process that waits in Redis is that by which it extends and releases. */
function blocksConnection(verb: string): Defect {
  return {
    id: 'blocks-connection',
    sentence: `it waits for the lock by ${verb} on the connection that all of its process share: until that is answered, Redis carries out nothing that is sent after it, so that the extensions and the release of the call that has the lock come too late`,
    fix: `wait by ${verb} on a connection of its own (duplicate())`,
    brings: ['leak'],
    isShown: true,
  };
}

/** What one acquisition of a process does to another one. */
export function sharedDefects({ keeps, blocksBy, letsBothIn }: FoundLock['seen'], isReleased: boolean): Defect[] {
  if (letsBothIn) return [BOTH_IN];
  if (keeps === null || !isReleased) return [];
  if (blocksBy !== null) return [blocksConnection(blocksBy.toUpperCase())];
  const when = keeps === 'a' ? 'a second one that is refused' : 'a second one, for another resource,';
  return [
    {
      id: 'shared-state',
      sentence: `acquisitions of one process share what ought to be each one's own, as the token of its release: ${when} overwrites that of the first, whose release then deletes nothing, and nobody gets that lock until its TTL is over`,
      fix: 'keep the token with each acquisition: in a local variable, or in what it returns',
      brings: ['leak'],
      isShown: true,
    },
  ];
}

/** Lets the next task of a process in, too: before its work is done, or by a transaction of that. */
const LETS_NEXT_IN = /^(?:releases-early|shared-watch)$/;

/** All defects but those that come of another one. */
export function withoutExplained(all: Defect[]): Defect[] {
  return all.some(({ id }) => LETS_NEXT_IN.test(id)) ? all.filter(({ id }) => id !== BOTH_IN.id) : all;
}
