import type { Redis } from 'ioredis';
import type { NodeAddress } from './net/addresses.js';

/**
 * The simulated nodes for a client under test, as connections or as addresses.
 */
export interface TestBed {
  /**
   * A connection to each node, with the interface of ioredis as far as locks use it: see `SimRedis`. Use of anything else is
   * rejected by name.
   */
  readonly nodes: [Redis, ...Redis[]];
  /** The address of each node, for clients of any library that open their own connections by `net` or `tls`. */
  readonly addresses: [NodeAddress, ...NodeAddress[]];
}

/**
 * A lock client, as tests call it. It has `acquire`, or `using` if the client does not return the lock. Every result may be a
 * promise.
 */
export interface LockUnderTest {
  /**
   * Acquires `resource` for `ttlMs`. Returns the held lock (see {@link HeldLock}). `null`, `undefined`, `false` or a rejection
   * mean that it was not acquired.
   */
  acquire?(resource: string, ttlMs: number): unknown;
  /** Releases a held lock. If omitted, the held lock's own `release` or `unlock` is called. */
  release?(held: unknown, resource: string): unknown;
  /** Extends a held lock. If omitted, its own `extend` is called, if any. A returned lock replaces the old one. */
  extend?(held: unknown, ttlMs: number): unknown;
  /** Runs `routine` under the lock, with automatic extensions; `signal` aborts when the lock is lost. */
  using?(resource: string, ttlMs: number, routine: (signal?: AbortSignal) => Promise<void>): unknown;
}

/** What a release is rejected with that only says that its lock was over: no failure of the release. */
export class LockOverError extends Error {
  override readonly name: string = 'LockOverError';
}

/**
 * Makes the client of one simulated process when the process starts. If it rejects, the waiting acquisition rejects with the same
 * error, and the next acquisition calls it again.
 */
export type MakeLock = (bed: TestBed) => LockUnderTest | Promise<LockUnderTest>;

/**
 * What a held lock may say about its hold. The first of these that exists counts: `remaining()` (ms left), `expiration`,
 * `expiresAt` or `validUntil` (ms by `Date.now`, or a `Date`), `isAcquired` or `isHeld` (or a method of that name),
 * `isValid()` or `isExpired()` (a method or a getter), `signal` (held until it aborts). A lock that compares clocks needs no timer:
 * it is asked at each instant that matters. A lock that says nothing counts as held for `ttlMs` from the call of `acquire`, less
 * 1 % and 2 ms for clock errors.
 */
export interface HeldLock {
  remaining?(): number;
  readonly expiration?: number | Date;
  readonly expiresAt?: number | Date;
  readonly validUntil?: number | Date;
  readonly isAcquired?: boolean | (() => boolean);
  readonly isHeld?: boolean | (() => boolean);
  readonly isValid?: boolean | (() => boolean);
  readonly isExpired?: boolean | (() => boolean);
  readonly signal?: AbortSignal;
  release?(): unknown;
  unlock?(): unknown;
  extend?(ttlMs: number): unknown;
}

/** Until when a client believes that it holds a lock: ms by its wall clock; `Infinity` until it says otherwise. */
export type Belief = number;

const NOT_HELD = Number.NEGATIVE_INFINITY;
const HELD = Number.POSITIVE_INFINITY;

/** Predicates, and what they say of a lock that is held. */
const PREDICATES = { isAcquired: true, isHeld: true, isValid: true, isExpired: false } as const;
type Predicate = keyof typeof PREDICATES;

/** What a lock says by this predicate; `undefined` where it has none, or says what is no answer. */
function saysOf(lock: HeldLock, name: Predicate): boolean | undefined {
  const says: unknown = lock[name];
  const answer: unknown = typeof says === 'function' ? says.call(lock) : says;
  if (typeof answer !== 'boolean') return undefined;
  // A result may have a field of such a name, which is about the acquisition and never changes.
  const isResult = (name === 'isValid' || name === 'isExpired') && typeof says === 'boolean' && isData(lock, name);
  return isResult ? undefined : answer === PREDICATES[name];
}

function isData(lock: object, name: Predicate): boolean {
  for (let at: object | null = lock; at !== null; at = Object.getPrototypeOf(at)) {
    const own = Object.getOwnPropertyDescriptor(at, name);
    if (own !== undefined) return own.get === undefined;
  }
  return false;
}

/**
 * Reads what a held lock says of itself, now.
 *
 * @param otherwise - What it is, if the lock says nothing.
 */
export function readHoldEnd(held: unknown, nowMs: number, otherwise: Belief): Belief {
  if (typeof held !== 'object' || held === null) return otherwise;
  const lock = held as HeldLock;
  if (typeof lock.remaining === 'function') return nowMs + lock.remaining();
  for (const until of [lock.expiration, lock.expiresAt, lock.validUntil]) {
    if (typeof until === 'number') return until;
    if (until instanceof Date) return until.getTime();
  }
  for (const name of Object.keys(PREDICATES) as Predicate[]) {
    const says = saysOf(lock, name);
    if (says !== undefined) return says ? HELD : NOT_HELD;
  }
  if (lock.signal instanceof AbortSignal) return lock.signal.aborted ? NOT_HELD : HELD;
  return otherwise;
}

/**
 * What a routine is given, as a held lock: a signal, or an object that says something of the lock. Where nothing is said, the
 * lock is held for as long as the routine runs.
 */
export function heldInRoutine(given: unknown): HeldLock {
  if (given instanceof AbortSignal) return { signal: given };
  if (typeof given !== 'object' || given === null || heldShapeError({ release: () => {} }, given) !== null) return {};
  const { signal } = given as HeldLock;
  return signal === undefined || signal instanceof AbortSignal ? given : {};
}

/** Whether a held lock says nothing of itself. */
export function saysNothing(held: unknown): boolean {
  return Number.isNaN(readHoldEnd(held, 0, Number.NaN));
}

/** Calls what gives a held lock back. */
export function releaseOf(client: LockUnderTest, held: unknown, resource: string): unknown {
  if (client.release !== undefined) return client.release(held, resource);
  const lock = held as HeldLock;
  if (typeof lock.release === 'function') return lock.release();
  if (typeof lock.unlock === 'function') return lock.unlock();
  throw new TypeError(
    'the client has no release(held, resource), and its held lock has neither release() nor unlock()',
  );
}

/** What extends a held lock; `null` for a client that cannot. */
export function extensionOf(client: LockUnderTest, held: unknown, ttlMs: number): (() => unknown) | null {
  if (client.extend !== undefined) return () => client.extend?.(held, ttlMs);
  const { extend } = held as HeldLock;
  return typeof extend === 'function' ? () => extend.call(held, ttlMs) : null;
}

/** Says what is wrong with what was given for a client, or `null`. */
export function lockShapeError(client: unknown): string | null {
  if (typeof client !== 'object' || client === null) return 'the client has to be an object';
  const parts = client as LockUnderTest;
  for (const name of ['acquire', 'using', 'release', 'extend'] as const) {
    const part: unknown = parts[name];
    if (part !== undefined && typeof part !== 'function') return `${name} of the client has to be a function`;
  }
  if (parts.acquire !== undefined || parts.using !== undefined) return null;
  return 'the client has to have acquire(resource, ttlMs) or using(resource, ttlMs, routine)';
}

/** Says what is wrong with what a client gave for a held lock, or `null`. Asks it what it says of itself. */
export function heldShapeError(client: LockUnderTest, held: unknown): string | null {
  const lock: Partial<Record<keyof HeldLock, unknown>> = typeof held === 'object' && held !== null ? held : {};
  const has = (name: keyof HeldLock): boolean => lock[name] !== undefined && lock[name] !== null;
  if (client.release === undefined && typeof lock.release !== 'function' && typeof lock.unlock !== 'function')
    return 'the client has no release(held, resource), and its held lock has neither release() nor unlock()';
  if (has('remaining')) {
    const left = typeof lock.remaining === 'function' ? (held as HeldLock).remaining?.() : null;
    if (!isNumber(left)) return 'remaining() of its held lock has to be a method that returns the ms left';
  }
  for (const name of ['expiration', 'expiresAt', 'validUntil'] as const) {
    const until = lock[name] instanceof Date ? lock[name].getTime() : lock[name];
    if (has(name) && !isNumber(until)) return `${name} of its held lock has to be ms as of Date.now(), or a Date`;
  }
  for (const name of ['isAcquired', 'isHeld'] as const) {
    const says: unknown = typeof lock[name] === 'function' ? lock[name].call(held) : lock[name];
    if (has(name) && typeof says !== 'boolean')
      return `${name} of its held lock has to be true or false, or a method that returns that at once`;
  }
  return null;
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number' && !Number.isNaN(value);
}
