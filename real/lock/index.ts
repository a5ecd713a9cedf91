export { compareFencingTokens, type FencingToken } from '../../core/index.js';
export type {
  AnyClient,
  ClusterConnectionOptions,
  ConnectionOptions,
  RedlockClient,
  RedlockClusterClient,
} from './connection.js';
export { LockError, type LockErrorCode, type LockErrorDetails, type LockOperation, type LockVotes } from './errors.js';
export type { Inspection } from './inspect.js';
export { Lock, type LockInfo, type LockSignal } from './lock.js';
export type { NodeRedisClient } from './node-redis.js';
export type { Recording, RecordingOptions } from './recording.js';
export { Redlock, type RedlockEvents, type Routine } from './redlock.js';
export type { RedisConnection } from './request.js';
export type { RestAddress, UpstashClient } from './rest.js';
export type { ReleaseReport } from './run.js';
export type { RedlockSession, RedlockTransport, SessionListener } from './session.js';
export type { AcquireSettings, PolicyOnly, RedlockSettings } from './settings.js';
export type { LockNotice, LockNotices } from './watch.js';
