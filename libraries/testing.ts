/**
 * Tests a lock client in a user's own test suite. Importing this entry has a side effect: it replaces clocks, timers and
 * randomness by dispatchers. They behave as the natives, except during events of a simulated process. Import it before the client.
 */
import './runtime/installed.js';

export { expectSafe, NondeterministicClientError, type SafeResult, UnsafeLockError } from './expect-safe.js';
export type { HeldLock, LockUnderTest, MakeLock, TestBed } from './lock-under-test.js';
export type { NodeAddress } from './net/addresses.js';
export type { ExpectSafeOptions, TestFaults } from './options.js';
export type { SimRedis } from './redis/client.js';
export { VIOLATION_KINDS, type ViolationKind } from './search/kinds.js';
export { UnsupportedClient } from './session.js';
