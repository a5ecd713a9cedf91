import type { Fault, LockPlan } from '../scenarios/index.js';
import { countsHolders, isLimit, readsLimit } from './environment.js';
import type { Hosts } from './hosts.js';
import type { Bench } from './load.js';
import type { Parameter } from './parameter.js';
import type { Understood } from './plan.js';
import { type Attempt, calm, REST_MS, rehearse, use } from './rehearsal.js';
import { roleOf } from './roles.js';

/** How many a lock lets in at once, and for how long. */
export interface Capacity {
  /** So many may hold it at once. */
  readonly admits: number;
  /** Others are let in when a holder has had it for this share of its TTL, though its key is there for longer. */
  readonly lastsShare: number;
  /** Others are let in when a holder has had it for its TTL, as where its entry in a sorted set ends by its score. */
  readonly endsByScore: boolean;
  /** The number of holders that the file names, or is given, where the lock lets in another number. */
  readonly named: number | null;
  /** Those who were refused are counted as holders: when all have left, nobody is let in. */
  readonly countsRefused: boolean;
  /** Those who wait are counted as holders: when all have left, nobody of those who wait is let in. */
  readonly countsWaiters: boolean;
}

const ONE: Capacity = {
  admits: 1,
  lastsShare: 1,
  endsByScore: false,
  named: null,
  countsRefused: false,
  countsWaiters: false,
};

/** Asked for at most, and at least, to find out how many get in. */
const MOST_ASKING = 40;
const LEAST_ASKING = 8;

/** From one who asks to the next, ms. */
const APART_MS = 12;

const IS_COUNTER = /\bh?incr(?:by)?\b/i;
const ADDS_ENTRY = /\bzadd\b/i;
const SWEEPS = /zremrangebyscore|zcount/i;

const LIMITS =
  /([A-Za-z_$#][\w$]*)['"]?\s*(?::\s*number\s*)?(?:=|:|\?\?|\|\|)\s*(?:Number\([^)\d]*|parseInt\([^)\d]*)?['"]?(\d{1,3})(?![\w.])/g;

/** Limits of holders that files name with a number. */
export function limitsIn(sources: readonly { readonly text: string }[]): number[] {
  return sources.flatMap(({ text }) =>
    [...text.matchAll(LIMITS)].flatMap(([, name = '', number = '']) => (isLimit(name) ? [Number(number)] : [])),
  );
}

/** Whether the file is told how many may hold its lock, by a parameter or by its environment: 1, then. */
function isTold({ program: { shapes, sources } }: Bench): boolean {
  const isLimit = (it: Parameter): boolean => roleOf(it) === 'permits' || it.fields.some(isLimit);
  return readsLimit(sources) || shapes.some(({ parameters }) => parameters.some(isLimit));
}

/** Of what a lock lets in on its own, one after the other and with nothing in the way, how many may hold it. */
export async function capacityOf(bench: Bench, hosts: Hosts, how: Understood, ttlMs: number): Promise<Capacity> {
  const { sources } = bench.program;
  if (how.nodes > 1 || !countsHolders(sources) || how.plan.shared !== undefined) return ONE;
  const untilUs = (6 * ttlMs + 2 * REST_MS) * 1000;
  const playing = (uses: readonly LockPlan[], faults: readonly Fault[] = []): Promise<Attempt[]> => {
    const clients = uses.map((it) => [it]);
    return rehearse(bench, hosts, how, { ...calm(1, clients, untilUs), faults: [...faults] });
  };
  const written = [...new Set(limitsIn(sources))];
  const asking = Math.min(MOST_ASKING, Math.max(LEAST_ASKING, ...written.map((it) => it + 3)));
  const holds = Array.from({ length: asking }, (_, i) => use(10 + i * APART_MS, ttlMs, 0.9 * ttlMs));
  const seen = inAt(await playing(holds), 10 + asking * APART_MS + 200);
  // Another function of the file may be the one that says how many may hold it.
  const hasLimit = isTold(bench) && !written.includes(seen);
  const limits = hasLimit ? [] : written;
  const admitted = hasLimit ? 1 : seen;
  // Who lets in all that ask holds back nobody.
  const found = admitted > 1 && admitted < asking ? admitted : 1;
  const [limit = found] = limits;
  // Who compares wrongly lets in one more; a limit that is further off is that of something else, or a part of the limit.
  const isOneMore = hasLimit ? seen === 2 : limits.length === 1 && found > 1 && found === limit + 1;
  const named = isOneMore ? limit : null;
  const admits = named ?? found;
  const sweeps = sources.some(({ text }) => SWEEPS.test(text));
  const lasting = lastingIn(sweeps && !how.renews ? await playing(toTheEnd(admits, ttlMs)) : [], admits, ttlMs);
  // Of one that extends itself, an entry ends by its score where its holder has died.
  const dies: Fault = { kind: 'client-crash', client: 'c1', atUs: Math.round(500 * ttlMs) };
  const isDead = sweeps && how.renews && admits === 1;
  const left = isDead ? await playing([use(10, ttlMs, 3 * ttlMs), use(2.5 * ttlMs, ttlMs, 1)], [dies]) : [];
  const endsByScore = lasting.endsByScore || (isDead && left.every(({ held }) => held !== null));
  const counter = sources.some(({ text }) => IS_COUNTER.test(text));
  const entries = sources.some(({ text }) => ADDS_ENTRY.test(text));
  const crowded = counter || entries ? await playing(filled(admits, 2 * admits + 2, ttlMs)) : [];
  return {
    admits,
    named,
    lastsShare: lasting.lastsShare,
    endsByScore,
    countsRefused:
      counter && isFreeAgain(await playing(filled(admits, 0, ttlMs)), ttlMs) && !isFreeAgain(crowded, ttlMs),
    countsWaiters: entries && isKeptFrom(crowded, admits),
  };
}

/** How many have the lock at an instant, granted by Redis. */
function inAt(attempts: readonly Attempt[], atMs: number): number {
  const first = Math.min(...attempts.map(({ askedMs }) => askedMs));
  return attempts.filter(
    ({ held, trial, acquiredMs, releasedMs }) =>
      held !== null && trial?.isGranted === true && acquiredMs - first < atMs && !(releasedMs - first <= atMs),
  ).length;
}

const LOOKS = 40;
const LOOKED_SHARE = 1.2;

/** More than it takes from the command that is granted until its caller has the lock, ms. */
const ROUND_TRIP_MS = 5;

/** More than this share of a TTL is all of it. */
const WHOLE = 0.9;

/** All places are held for long, and others ask for one again and again. */
function toTheEnd(admits: number, ttlMs: number): LockPlan[] {
  const holders = Array.from({ length: admits }, (_, i) => use(10 + i, ttlMs, 2.5 * ttlMs));
  const others = Array.from({ length: LOOKS }, (_, i) => use(20 + ((i + 1) * LOOKED_SHARE * ttlMs) / LOOKS, ttlMs, 1));
  return [...holders, ...others];
}

/** When one was refused last before one was let in, from when the first had asked, as a share of the TTL. */
function lastingIn(
  attempts: readonly Attempt[],
  admits: number,
  ttlMs: number,
): Pick<Capacity, 'lastsShare' | 'endsByScore'> {
  const [first] = attempts;
  if (first === undefined || attempts.slice(0, admits).some(({ held }) => held === null))
    return { lastsShare: 1, endsByScore: false };
  const others = attempts.slice(admits);
  const inMs = Math.min(...others.filter(({ held }) => held !== null).map(({ acquiredMs }) => acquiredMs));
  const asks = others.flatMap(({ trial }) => trial?.sent ?? []).filter(({ operation }) => operation === 'acquire');
  const refusedMs = Math.max(0, ...asks.map(({ atMs }) => atMs).filter((atMs) => atMs < inMs - ROUND_TRIP_MS));
  const share = (refusedMs - first.askedMs) / ttlMs;
  return { lastsShare: share > 0 && share < WHOLE ? share : 1, endsByScore: Number.isFinite(inMs) };
}

/** All places are taken, so many more ask and are refused, all leave, and one asks that is alone. */
function filled(admits: number, refused: number, ttlMs: number): LockPlan[] {
  const holders = Array.from({ length: admits }, (_, i) => use(10 + i, ttlMs, 0.3 * ttlMs));
  const others = Array.from({ length: refused }, (_, i) => use(0.1 * ttlMs + i, ttlMs, 1));
  return [...holders, ...others, use(0.65 * ttlMs, ttlMs, 1)];
}

/** They ask so often at least while the lock is free, before that counts. */
const LEAST_TRIES = 4;

/** Whether more wait than may hold a lock when its holders have left, and each asks again and gets nothing. */
function isKeptFrom(attempts: readonly Attempt[], admits: number): boolean {
  const holders = attempts.slice(0, admits);
  const hasLeft = ({ held, releaseError, trial }: Attempt): boolean =>
    held !== null && releaseError === null && (trial?.isReleased ?? false);
  if (!holders.every(hasLeft)) return false;
  const freeMs = Math.max(...holders.map(({ releasedMs }) => releasedMs));
  const waiting = attempts.slice(admits).filter((it) => it.askedMs < freeMs && !(it.returnedMs <= freeMs));
  const overMs = Math.min(...waiting.map((it) => (it.held === null ? it.returnedMs : it.acquiredMs)));
  const triesOf = ({ trial }: Attempt): number =>
    (trial?.sent ?? []).filter(({ operation, atMs }) => operation === 'acquire' && atMs > freeMs && atMs < overMs)
      .length;
  return (
    waiting.length > admits &&
    waiting.every((it) => triesOf(it) >= LEAST_TRIES) &&
    waiting.some(({ held, returnedMs }) => held === null && returnedMs === overMs)
  );
}

/** Whether the one that asks last gets the lock; also where it is not alone, as another waits for long. */
function isFreeAgain(attempts: readonly Attempt[], ttlMs: number): boolean {
  const last = attempts.at(-1);
  if (last === undefined) return true;
  const isOver = (it: Attempt): boolean => (it.held === null ? it.returnedMs : it.releasedMs) < last.askedMs;
  const isAlone = attempts.slice(0, -1).every((it) => isOver(it) && it.releaseError === null);
  return !isAlone || (last.held !== null && last.acquiredMs - last.askedMs < 0.1 * ttlMs);
}
