import type { LockFactory, Surroundings } from '../libraries/lock-factory.js';
import { type LockUnderTest, type MakeLock, readHoldEnd } from '../libraries/lock-under-test.js';
import { replayLibraries } from '../libraries/run.js';
import { current } from '../libraries/runtime/owner.js';
import { noCalls } from '../libraries/seen.js';
import { type LockPlan, type Partition, plainCluster, plainLock, type Schedule } from '../scenarios/index.js';
import { nodeName } from '../sim/index.js';
import type { Edition } from '../wire/index.js';
import { lockMaker } from './drive.js';
import { answersOf, type HeldByFile } from './held.js';
import type { Hosts } from './hosts.js';
import { isHarmful } from './late-safe.js';
import type { Bench } from './load.js';
import type { Plan, Sign, Understood } from './plan.js';
import { withReplica } from './replica.js';
import type { Terms } from './terms.js';
import type { Trial } from './trial.js';
import { calls } from './unknown.js';
import { unknownFetch } from './unknown-fetch.js';

/** What became of one acquisition in a rehearsal. */
export interface Attempt {
  readonly client: string;
  readonly trial: Trial | null;
  /** What it gave; `null` where it was refused, or failed. */
  held: HeldByFile | null;
  error: unknown;
  askedMs: number;
  acquiredMs: number;
  /** When its call returned, whatever it gave. */
  returnedMs: number;
  /** Its key was deleted before the call was over. */
  isOver: boolean;
  releasedMs: number;
  releaseError: unknown;
  /** For how long it says that it is held, as it was acquired, ms; `null` where it gives no time. */
  saidMs: number | null;
  /** As its time ended, it still took itself for the holder, by what it says or by its TTL. */
  believes: boolean;
  /** What was said of the lock while it was held, and no longer when it was not. */
  sign: Sign | null;
  /** When its release, or the call that runs its work, had returned. */
  leftMs: number;
  /** A call in the context of its work was let in after the release, without a key. */
  isReentered: boolean;
}

/** How a rehearsal differs from plain use. */
export interface Ways {
  /** The work under the lock throws. */
  readonly throws?: boolean;
  /** What a function sends at the end of its own work is not kept back. */
  readonly naturally?: boolean;
  /** What the lock and its owner say is looked at before and after it is released. */
  readonly looks?: boolean;
  /** Receives the arguments of each call of what a function was handed, and its name. */
  readonly heard?: (given: readonly unknown[], name: string) => void;
  /** What each such call takes where it is awaited, by its arguments and name. Default: nothing. */
  readonly takes?: (given: readonly unknown[], name: string) => Promise<void>;
  /** What is given by each such call is this as a number. Default: 1. */
  readonly number?: () => number;
  /** Elements of each list that it was handed. Default 1. */
  readonly elements?: number;
  /** Names in each list of names that it is given. Default 1. */
  readonly names?: number;
  /** How a process uses the lock, by its name. */
  readonly planOf?: (process: string) => Plan;
  /** The client of a request disconnects when the work has begun. */
  readonly hangsUp?: boolean;
  /** Receives how long each timer takes that a process sets, ms. */
  readonly timed?: (delayMs: number) => void;
  /** Calls of one process overlap, and are told apart. */
  readonly apart?: boolean;
  /** The first process acquires again in the context of its work, so long after its release, ms. */
  readonly reentersAfterMs?: number;
}

/** Calls are given so long to come to an end, ms. */
export const REST_MS = 60_000;

/** A world in which nothing goes wrong. */
export function calm(nodes: number, clients: readonly (readonly LockPlan[])[], untilUs: number): Schedule {
  return {
    schema: 'lockstep.schedule/2',
    cluster: plainCluster(nodes),
    policy: { profile: 'reference', habits: { clock: 'wall' } },
    clients: clients.map((locks, i) => ({ id: `c${i + 1}`, locks: [...locks] })),
    faults: [],
    fates: [],
    untilUs,
  };
}

/** The same where the clock of one process is so far ahead of all others, or behind. */
export function withClock(schedule: Schedule, process: string, aheadMs: number): Schedule {
  const clocks = [{ process, offsetUs: aheadMs * 1000, ratePpm: 0 }];
  return { ...schedule, cluster: { ...schedule.cluster, clocks } };
}

/** Messages from one process to another are late: what is sent in this time leaves at its end. */
export function delayed(from: string, to: string, atMs: number, forMs: number): Partition {
  const [atUs = 0, forUs = 0] = [atMs, forMs].map((ms) => Math.round(ms * 1000));
  return { kind: 'partition', from: [from], to: [to], oneWay: true, holds: true, atUs, forUs };
}

/** The same of all messages between a process and so many nodes. */
export function cutOff(process: string, nodes: number, atMs: number, forMs: number): Partition {
  const to = Array.from({ length: nodes }, (_, i) => nodeName(i));
  return { ...delayed(process, '', atMs, forMs), to, oneWay: false };
}

/** One lock of a rehearsal. */
export function use(atMs: number, ttlMs: number, holdMs: number): LockPlan {
  return plainLock(Math.round(atMs * 1000), ttlMs, { holdUs: Math.round(holdMs * 1000) });
}

/** A lock that can be run, as it is before anything is known of it. */
export function factoryFor(name: string, make: MakeLock, bench: Bench, hosts: Hosts): LockFactory {
  return {
    name,
    make,
    commandTimeoutMs: undefined,
    bounds: false,
    scripts: new Map(),
    seen: noCalls(),
    ...surroundingsIn(bench, hosts),
  };
}

/**
 * The same so much later, but for the first use of each process, which waits until that is ready, and what is there from the beginning.
 */
function startedAfter(afterUs: number, schedule: Schedule): Schedule {
  if (afterUs === 0) return schedule;
  const later = <T extends { readonly atUs: number }>(it: T): T => ({ ...it, atUs: it.atUs + afterUs });
  const faults = schedule.faults.map((it) => (it.atUs === 0 ? it : later(it)));
  const clients = schedule.clients.map(({ id, locks: [first, ...more] }) => ({
    id,
    locks: first === undefined ? [] : [first, ...more.map(later)],
  }));
  return { ...schedule, faults, clients, untilUs: schedule.untilUs + afterUs };
}

/** What surrounds the lock of a file in each of its runs. */
export function surroundingsIn({ wire, stored, program }: Bench, { nodeAt }: Hosts): Surroundings {
  const { edition } = NEWER.find(({ sign }) => program.texts.some((it) => sign.test(it))) ?? {};
  return { tap: wire, nodeAt, stored, otherServers: unknownFetch, edition };
}

/** Commands of newer servers, by which a file says what its nodes run. */
const NEWER: readonly { readonly sign: RegExp; readonly edition: Edition }[] = [
  { sign: /['"`](?:IFEQ|DELEX)['"`]/i, edition: { flavour: 'redis', version: '8.4.0' } },
  { sign: /['"`]DELIFEQ['"`]/i, edition: { flavour: 'valkey', version: '9.0.0' } },
];

/** What runs a transaction, by its name. */
const IS_TRANSACTION = /transaction|atomic|unitOfWork|\buow\b|(?:^|[._])tx\b|Tx\b|\((?:tx|trx|transaction|uow)\)$/i;

/** Uses a lock in a world in which nothing goes wrong, and says what became of each acquisition. */
export async function rehearse(
  bench: Bench,
  hosts: Hosts,
  how: Understood,
  schedule: Schedule,
  ways: Ways = {},
): Promise<Attempt[]> {
  const attempts: Attempt[] = [];
  const make = lockMaker(bench, how, ways.planOf);
  const watched: MakeLock = async (bed) => {
    const lock = await make(bed);
    return { ...lock, ...watchedCalls(lock, attempts, bench, ways) };
  };
  bench.wire.naturally = ways.naturally ?? false;
  bench.wire.tellsApart = ways.apart ?? false;
  bench.wire.timed = ways.timed ?? null;
  calls.takes = ways.takes ?? null;
  calls.elements = ways.elements ?? 1;
  calls.names = ways.names ?? 1;
  calls.number = ways.number ?? null;
  calls.heard = (given, name) => {
    ways.heard?.(given, name);
    const trial = current.owner === null ? null : bench.wire.trialOf(current.owner);
    if (trial === null) return;
    trial.worksAfter.push(trial.sent.length);
    // What an error is handed to, or another text, is told something else.
    const told = given.find((it) => typeof it === 'string' || it instanceof Error);
    const call = told === undefined ? name : `${name} ${told}`;
    trial.calls.push(call);
    if (trial.key == null) return;
    trial.works.push(call);
    if (isHarmful(call, given)) trial.harms.push(call);
    trial.worksAtMs.push(current.owner?.wallMs() ?? Number.NaN);
  };
  calls.ran = (name, isOver) => {
    const trial = current.owner === null ? null : bench.wire.trialOf(current.owner);
    if (trial === null || !IS_TRANSACTION.test(name)) return;
    if (!isOver) trial.transactions.push({ from: trial.sent.length, to: Number.POSITIVE_INFINITY });
    else Object.assign(trial.transactions.at(-1) ?? {}, { to: trial.sent.length });
  };
  const factory = factoryFor(bench.program.name, watched, bench, hosts);
  try {
    await replayLibraries(factory, withReplica(bench.program, startedAfter(bench.readyAfterUs, schedule)));
  } finally {
    for (const [sha, text] of factory.scripts) bench.scripts.set(sha, text);
    bench.wire.reset();
    calls.heard = null;
    calls.ran = null;
    calls.takes = null;
    calls.number = null;
    calls.elements = 1;
    calls.names = 1;
  }
  return attempts;
}

/** The acquisition of the process that runs now, where that has the lock and has not released it; else `null`. */
export function heldNow({ wire }: Bench): Trial | null {
  const trial = current.owner === null ? null : wire.trialOf(current.owner);
  return trial?.isGranted === true && !releasedIn(trial) ? trial : null;
}

/** Whether an acquisition has deleted its key after that was granted. */
export function releasedIn({ releases, key, grantedMs }: Pick<Trial, 'releases' | 'key' | 'grantedMs'>): boolean {
  return releases.some((it) => it.key === key && it.atMs >= grantedMs);
}

function believesIn({ signal, isHeld, expiresAt = Number.POSITIVE_INFINITY }: HeldByFile, nowMs: number): boolean {
  if (signal?.aborted) return false;
  return isHeld === undefined ? nowMs < expiresAt : isHeld();
}

/** What says that something was told to stop, and nothing of its lock. */
const IS_STOPPED = /^[_#]*(?:is|was)?_?(?:stop|clos|shut|destroy|drain|dispos|terminat|abort)\w*$/i;

/** What was said of a lock, and what its process tells of its terms, before it was released. */
interface Before {
  readonly said: readonly ReadonlyMap<string, boolean>[];
  /** How much of this had been told. */
  readonly told: number;
  readonly terms: Terms | undefined;
}

/** What was said before, and is no longer said. */
function signIn({ said, told, terms }: Before, of: readonly unknown[]): Sign | null {
  // What was acquired may be closed; who owns it is told to stop.
  const isOfLock = (name: string, i: number): boolean => i === 0 || !IS_STOPPED.test(name);
  const changed = said.flatMap((before, i) => {
    const after = answersOf(of[i]);
    const names = [...before].filter(([name, answer]) => after.get(name) === !answer && isOfLock(name, i));
    return names.map(([name, whenHeld]): Sign & { readonly isKept: boolean } => {
      const at = of[i] as object;
      const isKept = typeof Reflect.get(at, name) !== 'function' && Object.hasOwn(at, name);
      return { of: i === 0 ? 'result' : 'owner', name, whenHeld, isKept };
    });
  });
  const asked = (all: typeof changed): Sign | undefined => all.find(({ isKept }) => !isKept);
  const ofResult = changed.filter((it) => it.of === 'result');
  // What can be asked comes before what is told, and that before what its owner keeps for it.
  return asked(ofResult) ?? ofResult[0] ?? asked(changed) ?? terms?.signSince(told) ?? changed[0] ?? null;
}

const later = (ms: number): Promise<null> => new Promise((resolve) => setTimeout(() => resolve(null), ms));

/** The same after a release. What gives nothing may say that it has the lock until its TTL is over. */
async function signAfter(before: Before, { trial }: Attempt, of: readonly unknown[]): Promise<Sign | null> {
  const sign = signIn(before, of);
  if (sign !== null || of[0] !== undefined || trial?.ttlMs == null) return sign;
  await later(1.2 * trial.ttlMs);
  return signIn(before, of);
}

/** The process that a rehearsal does something to. */
const FIRST = 'c1';

/** Whether a call in the context of finished work is let in without a key, and believes that it has the lock. */
async function isLetIn({ reenter, ttlMs }: HeldByFile, afterMs: number): Promise<boolean> {
  await later(afterMs);
  const again = await Promise.race([reenter?.().catch(() => null), later(ttlMs / 2)]);
  if (again == null) return false;
  const isIn = !again.trial.isGranted && believesIn(again, current.owner?.wallMs() ?? Number.NaN);
  await again.leave().catch(() => undefined);
  return isIn;
}

function watchedCalls(
  lock: LockUnderTest,
  attempts: Attempt[],
  { wire }: Bench,
  { throws = false, looks = false, hangsUp = false, reentersAfterMs }: Ways,
): Pick<LockUnderTest, 'acquire' | 'release'> {
  const nowMs = (): number => current.owner?.wallMs() ?? Number.NaN;
  return {
    async acquire(resource, ttlMs) {
      const process = current.owner;
      const asked = wire.apart(process, () => lock.acquire?.(resource, ttlMs));
      const attempt: Attempt = {
        client: process?.name ?? '',
        trial: process === null ? null : wire.trialOf(process),
        held: null,
        error: null,
        askedMs: nowMs(),
        acquiredMs: Number.NaN,
        returnedMs: Number.NaN,
        isOver: false,
        releasedMs: Number.NaN,
        releaseError: null,
        saidMs: null,
        believes: false,
        sign: null,
        leftMs: Number.NaN,
        isReentered: false,
      };
      attempts.push(attempt);
      try {
        attempt.held = ((await asked) ?? null) as HeldByFile | null;
      } catch (error) {
        attempt.error = error;
        throw error;
      } finally {
        attempt.returnedMs = nowMs();
      }
      const { trial } = attempt;
      attempt.isOver = trial?.isGranted === true && releasedIn(trial);
      if (attempt.held !== null) {
        attempt.acquiredMs = nowMs();
        const untilMs = readHoldEnd(attempt.held.result, attempt.acquiredMs, Number.NaN);
        if (Number.isFinite(untilMs)) attempt.saidMs = untilMs - attempt.acquiredMs;
        if (hangsUp && attempt.client === FIRST) attempt.held.hangUp?.();
      }
      return attempt.held;
    },
    async release(held) {
      const attempt = attempts.find((it) => it.held === held);
      if (attempt !== undefined) {
        attempt.releasedMs = nowMs();
        attempt.believes = believesIn(held as HeldByFile, attempt.releasedMs);
      }
      const { result, owner, terms } = held as HeldByFile;
      const said = looks ? ([result, owner] as const).map(answersOf) : [];
      const told = terms?.soFar ?? 0;
      try {
        await (held as HeldByFile).leave(throws ? new Error('the work failed') : undefined);
      } catch (error) {
        if (attempt !== undefined) attempt.releaseError = error;
      }
      if (attempt !== undefined) attempt.leftMs = nowMs();
      if (attempt?.client === FIRST && reentersAfterMs !== undefined)
        attempt.isReentered = await isLetIn(held as HeldByFile, reentersAfterMs);
      if (attempt !== undefined && looks)
        attempt.sign = await signAfter({ said, told, terms }, attempt, [result, owner]);
    },
  };
}
