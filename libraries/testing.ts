/**
 * For a user's own test suite: the one entry with a side effect. On import it puts dispatchers in the place of clocks,
 * timers and randomness, which equal the natives unless a simulated process owns the event. Import it before the client.
 */
import './runtime/installed.js';

export { expectSafe, NondeterministicClientError, type SafeResult, UnsafeLockError } from './expect-safe.js';
export type { HeldLock, LockUnderTest, MakeLock, TestBed } from './lock-under-test.js';
export type { NodeAddress } from './net/addresses.js';
export type { ExpectSafeOptions, TestFaults } from './options.js';
export type { SimRedis } from './redis/client.js';
export { VIOLATION_KINDS, type ViolationKind } from './search/kinds.js';
export { UnsupportedClient } from './session.js';
