/*
 * What the tool uses of the lock that users do not: the driver and what it stands on, to play schedules with; clocks and
 * chance of simulated processes. It is no part of the package.
 */

export { type Clock, LocalClock, type TimeSources } from './clock.js';
export { LockDriver, type Receiver, type Voter } from './driver.js';
export { type LockRuntime, newRuntime } from './machine.js';
export { Pacer } from './pacer.js';
export { type Reply, Request, replyOf } from './request.js';
