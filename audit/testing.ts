/** For a user's own test suite: the lock in a file, tested as `lockstep audit` does. */

export { expectSafeFile, type FileOptions, UnsafeFileError } from './expect-safe-file.js';
export type { AuditResult, ClientKind, Finding } from './result.js';
