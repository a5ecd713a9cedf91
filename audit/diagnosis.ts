import type { ViolationKind } from '../guests/search/kinds.js';
import { FIRST_TTL_MS } from './examine.js';
import type { Said } from './said.js';
import type { FoundLock } from './understand.js';
import type { Trial } from './wire.js';
import { seconds } from './words.js';

/** What is wrong with a lock, and what shows it. */
export interface Defect {
  /** Short, for programs: `blind-release`. */
  readonly id: string;
  readonly sentence: string;
  readonly fix: string;
  /** Kinds of failure that it brings about. */
  readonly brings: readonly ViolationKind[];
  /** Using the lock with nothing in its way has shown it: no search is needed. */
  readonly isShown: boolean;
  /** The command in which it lies, in upper case, where it lies in one. */
  readonly verb?: string;
}

/** What the lock sends for its key. */
interface Commands {
  readonly trial: Trial;
  readonly acquire: Said | undefined;
  readonly before: readonly Said[];
  readonly extensions: readonly Said[];
  readonly releases: readonly Said[];
  readonly readsBeforeRelease: boolean;
  readonly watches: boolean;
}

function commandsOf(trial: Trial): Commands {
  const own = trial.sent.filter(({ key }) => key === trial.key);
  const first = own.findIndex(({ operation }) => operation === 'acquire');
  const release = own.findIndex(({ operation }) => operation === 'release');
  return {
    trial,
    acquire: own[first],
    before: own.slice(0, Math.max(0, first)),
    extensions: own.filter(({ operation }) => operation === 'extend'),
    releases: own.filter(({ operation }) => operation === 'release'),
    readsBeforeRelease:
      release > 0 && own.slice(first + 1, release).some(({ verb }) => verb === 'get' || verb === 'mget'),
    watches: trial.sent.some(({ verb }) => verb === 'watch'),
  };
}

/** Less than any extension waits for, ms. */
const SOON_MS = 200;

const EXCLUSION: readonly ViolationKind[] = ['belief', 'state', 'token', 'continuity', 'margin'];

/** What the commands of a lock say of its defects, those first that bring about most. */
export function defectsOf({ how, seen }: FoundLock): Defect[] {
  const { trial } = seen.alone;
  if (trial === null) return [];
  const commands = commandsOf(trial);
  return [
    ...acquisitionDefects(commands, seen),
    ...errorDefects(seen, how.nodes),
    ...releaseDefects(commands, how.releases),
    ...valueDefects(commands, seen, how.releases),
    ...sharedDefects(seen, how.releases),
    ...extensionDefects(seen, how.renews),
    ...lifetimeDefects(commands, seen),
    ...workDefects(seen, how.releases),
    ...unitDefects(how, commands),
  ];
}

function acquisitionDefects({ acquire, before }: Commands, seen: FoundLock['seen']): Defect[] {
  const found: Defect[] = [];
  const looks = before.some(({ verb }) => ['get', 'exists', 'ttl', 'pttl'].includes(verb));
  if (
    acquire !== undefined &&
    !acquire.ifNew &&
    (acquire.verb === 'set' || acquire.verb.endsWith('setex') || acquire.verb === 'psetex')
  )
    found.push({
      id: 'check-then-set',
      sentence: looks
        ? `it looks whether the key is there and sets it with a second command (${before.at(-1)?.verb.toUpperCase()}, then ${acquire.verb.toUpperCase()} without NX): two processes can both find it free`
        : `it sets the key whether or not it is there (${acquire.verb.toUpperCase()} without NX): every client that asks takes the lock from its holder`,
      fix: 'acquire with one command: SET key token NX PX ttl',
      brings: EXCLUSION,
      isShown: false,
      verb: acquire.verb.toUpperCase(),
    });
  const [one, two] = seen.both;
  if (two?.held && one?.held && two.trial?.isGranted === false)
    found.push({
      id: 'fails-open',
      sentence:
        'its work goes on without the lock: a second process ran while the first one held it, though Redis had refused it the key',
      fix: 'do no work where SET … NX answers null, and throw or return instead',
      brings: EXCLUSION,
      isShown: true,
    });
  return found;
}

/** What it does where no majority of its nodes is there. */
function errorDefects({ unreached }: FoundLock['seen'], nodes: number): Defect[] {
  if (unreached?.held == null || unreached.trial?.isGranted !== false) return [];
  const isOne = nodes === 1;
  return [
    {
      id: isOne ? 'fails-open-on-error' : 'no-majority',
      sentence: isOne
        ? 'its work goes on without the lock where Redis cannot be reached or a command fails: two processes that both fail to ask both work'
        : `it takes ${Math.floor(nodes / 2)} of ${nodes} nodes for enough, which is no majority: two processes can both have the lock`,
      fix: isOne
        ? 'do no work where the lock could not be asked for: throw'
        : 'ask for more than half of all nodes, whether they answer or not',
      brings: EXCLUSION,
      isShown: true,
    },
  ];
}

function valueDefects(
  { trial }: Commands,
  { both, sameValue, deletesNext }: FoundLock['seen'],
  releases: boolean,
): Defect[] {
  const [one, two] = both;
  const isSame = one?.trial && two?.trial && one.trial.value === two.trial.value && trial.value !== '';
  if (isSame && releases)
    return [
      {
        id: 'shared-value',
        sentence: `all processes store the same value (${JSON.stringify(trial.value.slice(0, 40))}), so that nobody can tell whose lock a key is`,
        fix: 'store a random token for each acquisition, and compare it on release',
        brings: EXCLUSION,
        isShown: false,
      },
    ];
  if (sameValue === null || !releases) return [];
  return [
    {
      id: 'value-of-process',
      sentence: `all acquisitions of one process store the same value (${JSON.stringify(sameValue.slice(0, 40))}), so that the release of one whose key has expired deletes the key of the next`,
      fix: 'store a random token for each acquisition, and compare it on release',
      brings: EXCLUSION,
      isShown: deletesNext,
    },
  ];
}

function releaseDefects({ releases, readsBeforeRelease, watches }: Commands, isReleased: boolean): Defect[] {
  const plain = releases.find(({ verb, compares }) => verb !== 'script' && !compares);
  if (!isReleased || plain === undefined || watches) return [];
  const verb = plain.verb.toUpperCase();
  if (readsBeforeRelease)
    return [
      {
        id: 'two-step-release',
        sentence: `its release compares and deletes with two commands (GET, then ${verb}): between them the key can expire and become another's, whose lock is then deleted`,
        fix: 'compare and delete in one step: a Lua script, or DELEX … IFEQ',
        brings: EXCLUSION,
        isShown: false,
        verb,
      },
    ];
  return [
    {
      id: 'blind-release',
      sentence: `its release deletes the key without looking whose it is (${verb}): where the work outlasts the TTL, it deletes the lock of the next holder`,
      fix: 'delete the key only where it still has your token: a Lua script, or DELEX … IFEQ',
      brings: EXCLUSION,
      isShown: false,
      verb,
    },
  ];
}

/** What one acquisition of a process does to another one. */
function sharedDefects({ keeps }: FoundLock['seen'], isReleased: boolean): Defect[] {
  if (keeps === null || !isReleased) return [];
  const when = keeps === 'a' ? 'a second one that is refused' : 'a second one, for another resource,';
  return [
    {
      id: 'shared-state',
      sentence: `acquisitions of one process share what ought to be each one's own, as the token of its release: ${when} replaces that of the first, whose release then deletes nothing, and nobody gets that lock until its TTL is over`,
      fix: 'keep the token with each acquisition: in a local variable, or in what it returns',
      brings: ['leak'],
      isShown: true,
    },
  ];
}

function extensionDefects(seen: FoundLock['seen'], renews: boolean): Defect[] {
  const found: Defect[] = [];
  // What follows its acquisition at once gives the key its TTL.
  const all = [seen.renewed?.trial, seen.extended?.trial].flatMap((trial) =>
    (trial?.sent ?? []).filter(
      ({ operation, key, atMs }) => operation === 'extend' && key === trial?.key && atMs > trial.grantedMs + SOON_MS,
    ),
  );
  const blind = all.find(({ verb, compares }) => verb !== 'script' && !compares);
  if (blind !== undefined)
    found.push({
      id: 'blind-extension',
      sentence: `it extends the key without looking whose it is (${blind.verb.toUpperCase()}): when its own key has gone, it keeps another's alive and goes on as if it held the lock`,
      fix: 'extend the key only where it still has your token, and tell the work where it has not',
      brings: EXCLUSION,
      isShown: false,
      verb: blind.verb.toUpperCase(),
    });
  if (seen.extendsOn)
    found.push({
      id: 'extends-after-release',
      sentence:
        'it goes on extending its key when its release has failed: nobody else gets the lock for as long as the process lives',
      fix: 'stop the timer of the extension before the release, or in a finally block around it',
      brings: ['lifetime', 'unavailable'],
      isShown: true,
    });
  if (renews)
    found.push({
      id: 'silent-loss',
      sentence:
        'it keeps its lock alive by itself, and the work is not told in time when that fails: the key expires, another process gets the lock, and both work',
      fix: 'count the time since the last extension that succeeded, and abort the work (AbortSignal) before the TTL is over',
      brings: ['belief', 'state', 'margin'],
      isShown: false,
    });
  return found;
}

/** A number of seconds that was meant as ms: more than an hour, in whole thousands, and no number of hours. */
function isMsAsSeconds(words: readonly string[]): boolean {
  const at = /^set$/i.test(words[0] ?? '') ? words.findIndex((it) => /^ex$/i.test(it)) : 1;
  const ttlS = at > 0 && /^(?:set|setex|expire)$/i.test(words[0] ?? '') ? Number(words[at + 1]) : Number.NaN;
  return ttlS >= 5_000 && ttlS % 1000 === 0 && ttlS % 3600 !== 0;
}

function unitDefects({ fixedTtlMs, plan, releases }: FoundLock['how'], { acquire, extensions }: Commands): Defect[] {
  const inSeconds = [acquire, ...extensions].find((it) => it !== undefined && isMsAsSeconds(it.words));
  if (inSeconds !== undefined && releases && fixedTtlMs !== null && fixedTtlMs !== 1000 * FIRST_TTL_MS)
    return [
      {
        id: 'ms-as-seconds',
        sentence: `its TTL is ${seconds(fixedTtlMs)}: ${fixedTtlMs / 1000} is handed to Redis as seconds (${inSeconds.verb === 'set' ? 'EX' : inSeconds.verb.toUpperCase()}), as if it were milliseconds; after a crash nobody gets the lock for so long`,
        fix: 'PX, or divide by 1000',
        brings: ['lifetime'],
        isShown: true,
      },
    ];
  if (plan.use === 'handler' || plan.use === 'script') return [];
  const isLong = fixedTtlMs === 1000 * FIRST_TTL_MS;
  if (!isLong && fixedTtlMs !== FIRST_TTL_MS / 1000) return [];
  return [
    {
      id: isLong ? 'ms-as-seconds' : 'seconds-as-ms',
      sentence: isLong
        ? 'it is given its TTL in milliseconds and hands it to Redis as seconds (EX): a key that nobody deletes is there for a thousand times as long'
        : 'it is given its TTL in seconds and hands it to Redis as milliseconds (PX): its key is gone after a thousandth of that, and another process gets the lock',
      fix: isLong ? 'PX, or divide by 1000' : 'EX, or multiply by 1000',
      brings: isLong ? ['lifetime'] : ['belief', 'state'],
      isShown: true,
    },
  ];
}

function lifetimeDefects({ acquire, extensions }: Commands, seen: FoundLock['seen']): Defect[] {
  if (acquire === undefined || acquire.ttlMs !== null || !acquire.ifNew) return [];
  const later = extensions[0];
  const soon = later !== undefined && later.atMs - acquire.atMs < 1_000;
  return [
    {
      id: soon ? 'ttl-by-second-command' : 'no-ttl',
      sentence: soon
        ? `its key gets its TTL by a second command (${acquire.verb.toUpperCase()}, then ${later.verb.toUpperCase()}): a process that dies between them leaves the key for ever, and nobody gets the lock again`
        : `its key has no TTL (${acquire.verb.toUpperCase()}): a process that dies with the lock leaves the key for ever, and nobody gets the lock again`,
      fix: 'set key and TTL with one command: SET key token NX PX ttl',
      brings: ['lifetime', 'unavailable'],
      verb: acquire.verb.toUpperCase(),
      isShown: !soon && seen.alone.held !== null,
    },
  ];
}

function workDefects({ ownWorkMs, alone, thrown }: FoundLock['seen'], releases: boolean): Defect[] {
  const found: Defect[] = [];
  const ttlMs = alone.trial?.ttlMs ?? null;
  if (ownWorkMs !== null && ttlMs !== null && ownWorkMs > ttlMs)
    found.push({
      id: 'work-outlasts-ttl',
      sentence: `its work takes ${seconds(ownWorkMs)}, and its key lives for ${seconds(ttlMs)}: the lock is over before the work is`,
      fix: 'a longer TTL, or an extension while the work goes on',
      brings: ['belief', 'state'],
      isShown: true,
    });
  const sends = thrown?.trial?.sent.some(({ operation }) => operation === 'release') ?? true;
  if (thrown?.held && releases && !sends)
    found.push({
      id: 'kept-on-error',
      sentence: 'it does not release the lock when the work throws: nobody gets it until its TTL is over',
      fix: 'release in a finally block',
      brings: ['leak', 'lifetime'],
      isShown: true,
    });
  return found;
}
