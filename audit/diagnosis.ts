import { isWork } from './called.js';
import { capacityDefects } from './capacity-defects.js';
import { GOES_ON_CAUGHT, NO_VOTE } from './causes.js';
import { type Commands, commandsOf, type Defect, EXCLUSION } from './defect.js';
import { comparisonDefects, drawingDefects, drawnLateDefects } from './fence-defects.js';
import { fenceDefects } from './fences.js';
import { guardDefects } from './guards.js';
import { LEADS_TOO_LONG, TOLD_LATE } from './loss-defects.js';
import { troubleOf } from './outages.js';
import { leavingDefects } from './readers.js';
import type { Attempt } from './rehearsal.js';
import { refusedDefects, releaseDefects, sharedDefects, withoutExplained } from './release-defects.js';
import { type Said, setsAnyway } from './said.js';
import { setsWhatever } from './set-options.js';
import { DROPS_TTL, MISTAKES_ANSWERS, REMEMBERS, valueOfProcess } from './shown-defects.js';
import type { FoundLock } from './understand.js';
import { unitDefects } from './unit-defects.js';
import { untoldDefects } from './untold.js';
import { seconds } from './words.js';

/** Less than any extension waits for, ms. */
const SOON_MS = 200;

/** What the commands of a lock say of its defects, those first that bring about most. */
export function defectsOf({ how, seen }: Pick<FoundLock, 'how' | 'seen'>): Defect[] {
  const { trial } = seen.alone;
  if (trial === null) return [];
  const commands = commandsOf(trial);
  const isShared = how.counts || how.admits > 1;
  const all = [
    ...capacityDefects(commands, { how, seen }),
    ...acquisitionDefects(commands, { how, seen }),
    ...readerDefects(commands, how),
    ...leavingDefects(seen.readers),
    ...(seen.remembers ? [REMEMBERS] : errorDefects({ how, seen })),
    ...(seen.mistakesAnswers && !isRefusedOne(seen.both) ? [MISTAKES_ANSWERS] : []),
    // What one process does to a key is not done to the place of another there.
    ...(isShared ? [] : refusedDefects(seen)),
    ...releaseDefects(commands, seen, how),
    ...valueDefects(commands, seen, how.releases),
    ...failoverDefects(seen),
    ...sharedDefects(seen, how.releases),
    ...seen.shown,
    ...extensionDefects(seen, how),
    ...beliefDefects(seen),
    ...lifetimeDefects(commands, seen),
    ...(seen.dropsTtl && how.releases ? [DROPS_TTL] : []),
    ...guardDefects({ how, seen }),
    ...workDefects(seen, how.releases && !how.handsRelease),
    ...unitDefects({ how, seen }, commands),
    ...fenceDefects(seen.fences, commands),
    ...drawnLateDefects(seen),
    ...drawingDefects(trial, seen.textOf),
    ...comparisonDefects(seen),
  ];
  return withoutExplained(all);
}

function acquisitionDefects(
  { acquire, before }: Commands,
  { how: { nodes }, seen }: Pick<FoundLock, 'how' | 'seen'>,
): Defect[] {
  const found: Defect[] = [];
  // Who watches the key before it looks is refused where somebody has set it since.
  const watches = acquire?.inMulti === true && before[0]?.verb === 'watch';
  if (acquire !== undefined && setsAnyway(acquire) && !watches)
    found.push({
      id: 'check-then-set',
      sentence: setsWhatever(acquire, before, seen.ignored),
      fix: 'acquire with one command: SET key token NX PX ttl',
      brings: EXCLUSION,
      isShown: false,
      verb: acquire.verb.toUpperCase(),
      takes: 'overwritten',
    });
  if (seen.takenByClock)
    found.push({
      id: 'taken-by-clock',
      sentence:
        'it takes the key of another process when that is over by its own clock (Date.now()): where this clock is ahead, the holder still works',
      fix: 'let the key end by itself: SET key token NX PX ttl',
      brings: EXCLUSION,
      isShown: false,
      takes: 'overwritten',
    });
  const isWatched = watches && isRefusedOne(seen.raced);
  if (isWatched || seen.worksRefused || isRefusedOne(seen.both))
    found.push({
      id: 'fails-open',
      ...(isWatched
        ? BY_EXEC
        : seen.alone.acquiredMs < Number(seen.alone.trial?.grantedMs)
          ? NOT_AWAITED
          : nodes > 1
            ? seen.usesRedlock
              ? GOES_ON_CAUGHT
              : NO_VOTE
            : acquire?.inMulti
              ? BY_PAIR
              : isOneOfSeveral(acquire, seen.alone)
                ? BY_LIST
                : REFUSED),
      brings: EXCLUSION,
      isShown: true,
    });
  return found;
}

/** Whether the key is asked for together with other commands. */
function isOneOfSeveral(acquire: Said | undefined, { trial }: FoundLock['seen']['alone']): boolean {
  return trial?.sent.some(({ key, atMs }) => key !== '' && key !== acquire?.key && atMs === acquire?.atMs) ?? false;
}

/** What looks for readers before it takes the lock. */
function readerDefects({ acquire, trial }: Commands, { plan }: FoundLock['how']): Defect[] {
  const before = acquire === undefined ? [] : trial.sent.slice(0, trial.sent.indexOf(acquire));
  const looks = before.findLast(({ verb }) => ['get', 'exists', 'hlen', 'scard', 'zcard', 'llen'].includes(verb));
  if (plan.shared === undefined || acquire === undefined || looks === undefined) return [];
  return [
    {
      id: 'reader-beside-writer',
      sentence: `it looks for readers and takes the lock by two commands (${looks.verb.toUpperCase()}, then ${acquire.verb.toUpperCase()}): a reader that comes in between reads beside the writer`,
      fix: 'look for readers and set the key in one script, and do so for readers as well',
      brings: ['belief'],
      isShown: false,
    },
  ];
}

/** How a lock is held without the key. */
const REFUSED = {
  sentence:
    'its work goes on without the lock: a second process ran while the first one held it, though Redis had refused it the key',
  fix: 'do no work where SET … NX answers null, and throw or return instead',
};
const NOT_AWAITED = {
  sentence:
    'its work begins before Redis has answered whether it has the key (the command is not awaited): a second process ran while the first one held it',
  fix: 'await the command, and do no work where it answers null',
};
const BY_PAIR = {
  sentence:
    'its work goes on without the lock: a second process ran while the first one held it, though Redis had refused it the key: in the reply of MULTI, that is a pair of an error and null, which is not falsy itself',
  fix: 'look at the second part of the pair: compare replies[0][1] with OK',
};
const BY_LIST = {
  sentence:
    'its work goes on without the lock: a second process ran while the first one held it, though Redis had refused it the key; the command is sent with others (a pipeline), and the list of their replies is never null itself',
  fix: 'look at the reply of SET in the list: compare replies[0] with OK',
};
const BY_EXEC = {
  sentence:
    'it takes the lock though EXEC answers null, which says that another process has changed the watched key: of two that find the key free, both work',
  fix: 'compare the answer of EXEC with null, and refuse the lock',
};

/** Whether two processes had the lock, one of them without the key. */
function isRefusedOne([one, two]: readonly Attempt[]): boolean {
  return one?.held != null && two?.held != null && !(one.trial?.isGranted && two.trial?.isGranted);
}

const FAILS_OVER: Defect = {
  id: 'fails-over',
  sentence:
    'it takes the lock on another node where the first does not answer, and that one knows nothing of the first: of two processes, one reaches the first, the other does not, and both have the lock',
  fix: 'ask a majority of three or more nodes (Redlock), or one node alone, and do no work where it does not answer',
  brings: EXCLUSION,
  isShown: true,
};

/** Whether all of a function's own work may be done twice: it stores on a condition, or has idempotency keys. */
function isHarmless({ trial }: Attempt): boolean {
  return trial?.works.some(isWork) === true && trial.harms.length === 0;
}

/** What it does where no majority of its nodes is there. */
function errorDefects({ how, seen }: Pick<FoundLock, 'how' | 'seen'>): Defect[] {
  const { unreached, worksUnasked, worksRefused } = seen;
  if (how.asksOne && unreached?.attempt.held != null) return [FAILS_OVER];
  // A leader that leads on asks for no key then.
  if (worksRefused || seen.leadsOn || (how.nodes === 1 && (seen.claimsRecord || isHarmless(seen.alone)))) return [];
  const trial = unreached?.attempt.trial;
  if (unreached === null || trial?.isGranted !== false || (unreached.attempt.held === null && !worksUnasked)) return [];
  const { nodes } = unreached;
  const isOne = nodes === 1;
  return [
    {
      id: isOne ? 'fails-open-on-error' : 'no-majority',
      sentence: isOne
        ? `its work goes on without the lock where ${troubleOf(unreached)}: two processes that both fail to ask both work`
        : `it takes ${Math.floor(nodes / 2)} of ${nodes} nodes for enough where it reaches no more, which is no majority of all nodes: two processes that reach different ones both have the lock`,
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
  { both, sameValue, deletesNext, textOf }: FoundLock['seen'],
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
  return [{ ...valueOfProcess(sameValue, trial, textOf), isShown: deletesNext }];
}

function failoverDefects({ lostInFailover }: FoundLock['seen']): Defect[] {
  if (!lostInFailover) return [];
  return [
    {
      id: 'wait-unheeded',
      sentence:
        'it waits for a replica (WAIT), and is held though none has its key: a failover to one that is behind gives the lock to another process',
      fix: 'compare the answer of WAIT with the replicas that are needed; where there are fewer, delete the key and refuse the lock',
      brings: EXCLUSION,
      isShown: true,
    },
  ];
}
function extensionDefects(seen: FoundLock['seen'], { renews, campaigns }: FoundLock['how']): Defect[] {
  const found: Defect[] = [];
  const all = [seen.renewed, seen.extended].flatMap(extensionsIn);
  const blind = all.find(({ verb, compares }) => verb !== 'script' && !compares)?.verb.toUpperCase() ?? seen.extendsAny;
  if (blind !== null && !seen.shown.some(({ id }) => id === 'revives-lock'))
    found.push({
      id: 'blind-extension',
      sentence: `it extends the key without looking whose it is (${blind === 'SET' ? 'SET … XX' : blind}): when its own key has gone, it keeps another's alive and goes on as if it held the lock`,
      fix: 'extend the key only where it still has your token, and tell the work where it has not',
      brings: EXCLUSION,
      isShown: seen.extendsAny !== null,
      verb: blind,
      takes: 'expired',
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
  if (blind === null && seen.extendsLost)
    found.push({
      id: 'extension-unheeded',
      sentence:
        "it does not look at the answer to its extension (0: the key has gone, or is another's): it goes on as if it had been extended, beside the new holder",
      fix: 'where the extension answers 0, the lock is lost: do not move its end on, and tell the work',
      brings: EXCLUSION,
      isShown: false,
      takes: 'expired',
    });
  if (seen.revives || seen.revivesUntold || (blind === null && seen.takesBack))
    found.push({
      id: 'revives-lock',
      sentence:
        'its extension sets the key again where that has expired: another process may have had the lock in between, and the holder is told that it has never lost it',
      fix: 'extend the key only where it still has your token; where it has gone, the lock is lost',
      brings: EXCLUSION,
      isShown: true,
      ...(seen.capacity.endsByScore ? {} : { takes: 'expired' }), // The next holder removes an entry that has ended by its score.
    });
  const late = lateExtension(seen.renewed);
  if (late !== null) found.push(late);
  else if (seen.extendsByFew)
    found.push({
      id: 'extends-by-few',
      sentence:
        'it takes an extension for done that fewer than a majority of its nodes have granted: its other keys expire, another process gets the lock, and both work',
      fix: 'count the nodes that have extended, and tell the work that the lock is lost where they are no majority',
      brings: ['belief', 'state', 'margin'],
      isShown: true,
      takes: 'expired',
    });
  else if (renews) found.push({ ...(campaigns ? LEADS_TOO_LONG : TOLD_LATE), isShown: false });
  return found;
}

/** What extends its key, after its acquisition. */
function extensionsIn(attempt: Attempt | null): readonly Said[] {
  const { sent = [], key, grantedMs = 0 } = attempt?.trial ?? {};
  // What follows a command without a TTL at once gives the key its TTL.
  const hasTtl = sent.some((it) => it.operation === 'acquire' && it.key === key && it.ttlMs !== null);
  const fromMs = hasTtl ? grantedMs : grantedMs + SOON_MS;
  return sent.filter((it) => it.operation === 'extend' && it.key === key && it.atMs >= fromMs);
}

/** Its key has expired before it is extended for the first time. */
function lateExtension(renewed: FoundLock['seen']['renewed']): Defect | null {
  const trial = renewed?.trial ?? null;
  const ttlMs = trial?.ttlMs ?? null;
  const [first] = extensionsIn(renewed);
  if (trial === null || ttlMs === null || first === undefined || first.atMs <= trial.grantedMs + ttlMs) return null;
  // What comes when the work is over stores what has come of it.
  if (first.atMs >= Number(renewed?.releasedMs)) return null;
  return {
    id: 'late-extension',
    sentence: `it extends its key for the first time after ${seconds(first.atMs - trial.grantedMs)}, and its key lives for ${seconds(ttlMs)}: between them another process gets the lock, and both work`,
    fix: 'extend the key after a third of its TTL',
    brings: EXCLUSION,
    isShown: true,
    takes: 'expired',
  };
}

/** Nobody means seconds and writes milliseconds at another factor than about this. */
const SECOND = { least: 900, most: 1_050 } as const;

/** It says that it is held long after its key has expired. */
function beliefDefects({ renewed }: FoundLock['seen']): Defect[] {
  const trial = renewed?.trial ?? null;
  const ttlMs = trial?.ttlMs ?? null;
  if (renewed?.held?.isHeld === undefined || !renewed.believes || trial === null || ttlMs === null) return [];
  if (trial.extensions > 0) return [];
  const saidMs = renewed.saidMs;
  const factor = (saidMs ?? 0) / ttlMs;
  const isUnit = factor >= SECOND.least && factor <= SECOND.most;
  const says =
    saidMs === null
      ? 'it says that it is held for three times as long'
      : `it says that it is held for ${seconds(saidMs)}`;
  return [
    {
      id: isUnit ? 'seconds-as-ms' : 'outlives-key',
      sentence: `its key lives for ${seconds(ttlMs)}, and ${says}${isUnit ? ': its TTL in seconds is handed to Redis as milliseconds (PX)' : ''}`,
      fix: isUnit
        ? 'EX, or multiply by 1000'
        : 'count from the TTL that the key is given, from before its command was sent',
      brings: ['belief', 'state', 'margin'],
      isShown: true,
      takes: 'expired',
    },
  ];
}

function lifetimeDefects({ acquire, extensions }: Commands, seen: FoundLock['seen']): Defect[] {
  const isConditional = acquire?.ifNew === true || (acquire?.verb === 'script' && acquire.compares);
  if (acquire === undefined || acquire.ttlMs !== null || !isConditional) return [];
  const later = extensions[0];
  const soon = later !== undefined && later.atMs - acquire.atMs < 1_000;
  if (soon && acquire.inMulti && later.inMulti) return [];
  return [
    {
      id: soon ? 'ttl-by-second-command' : 'no-ttl',
      sentence: soon
        ? `its key gets its TTL by a second command (${acquire.verb.toUpperCase()}, then ${later.verb.toUpperCase()}): a process that dies between them leaves the key for ever, and nobody gets the lock again`
        : `its key has no TTL (${acquire.verb.toUpperCase()}): a process that dies with the lock leaves the key for ever, and nobody gets the lock again`,
      fix: 'set key and TTL with one command: SET key token NX PX ttl',
      brings: ['lifetime', 'unavailable'],
      verb: acquire.verb.toUpperCase(),
      isShown: soon ? seen.staysWithoutTtl : seen.alone.held !== null,
    },
  ];
}

function workDefects({ ownWorkMs, alone, thrown, ...untold }: FoundLock['seen'], releases: boolean): Defect[] {
  const found: Defect[] = untoldDefects(untold);
  const ttlMs = alone.trial?.ttlMs ?? null;
  if (ownWorkMs !== null && ttlMs !== null && ownWorkMs > ttlMs)
    found.push({
      id: 'work-outlasts-ttl',
      sentence: `its work takes ${seconds(ownWorkMs)}, and its key lives for ${seconds(ttlMs)}: the lock is over before the work is`,
      fix: 'a longer TTL, or an extension while the work goes on',
      brings: ['belief', 'state'],
      isShown: true,
    });
  const { sent = null, key: own = null } = thrown?.trial ?? {};
  // What takes a message out of its list releases no lock.
  const sends = sent?.some((it) => it.operation === 'release' && (it.key === own || it.verb !== 'lrem')) ?? true;
  const isExtended = extensionsIn(thrown).some(({ atMs }) => atMs > Number(thrown?.releasedMs) + Number(ttlMs));
  // What does work of its own may leave its key to its TTL on purpose.
  if (thrown?.held && releases && !sends && (isExtended || ownWorkMs === null))
    found.push({
      id: 'kept-on-error',
      sentence: `it does not release the lock when the work throws${isExtended ? ', and its heartbeat goes on extending it for ever: nobody gets it for as long as the process lives' : ': nobody gets it until its TTL is over'}`,
      fix: `${isExtended ? 'stop the timer of the extension, and release,' : 'release'} in a finally block`,
      brings: ['leak', 'lifetime'],
      isShown: true,
    });
  return found;
}
