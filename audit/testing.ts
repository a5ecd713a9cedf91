/** For a user's own test suite: the lock in a file, tested as `lockstep audit` does. */

export type { AuditResult, Finding } from './audit.js';
export type { ClientKind } from './clients.js';
export { expectSafeFile, type FileOptions, UnsafeFileError } from './expect-safe-file.js';
