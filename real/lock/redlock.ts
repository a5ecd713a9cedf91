import { EventEmitter } from 'node:events';
import type { LockPolicy } from '../../core/index.js';
import { onAbort, orAborted } from './abort.js';
import { checkResources, checkSignal, isRecord, readable, show } from './arguments.js';
import type { AnyClient } from './connection.js';
import { configError, LockError, type LockOperation, withCallers } from './errors.js';
import { type Inspection, inspect } from './inspect.js';
import { Lock, type LockSignal } from './lock.js';
import { type LockRuntime, newRuntime } from './machine.js';
import { checkClients, NodeGroup, warnOfEvenNumber } from './node-group.js';
import { LockRecording, type Recording, type RecordingOptions } from './recording.js';
import { recoverCounters } from './recover.js';
import { LockRun, type ReleaseReport } from './run.js';
import {
  type AcquireSettings,
  DEFAULTS,
  policyFor,
  type RedlockSettings,
  type ResolvedSettings,
  resolveSettings,
} from './settings.js';
import { Slots } from './slots.js';
import { emitSafely, type LockNotices, Watch } from './watch.js';

/** What a {@link Redlock} emits. */
export interface RedlockEvents extends LockNotices {
  /**
   * A node's connection failed, or a node answered with an error. For logs: locks count it as a failed vote. Unlike with
   * other emitters, nothing is thrown without a listener.
   */
  error: [error: Error, node: number];
}

/** What an operator waits for a node, who would rather wait than be told to try again, ms. */
const RECOVERY_MS = 2_000;

/** Runs while a lock is held. */
export type Routine<T> = (signal: LockSignal, lock: Lock) => Promise<T>;

/**
 * Locks on a majority of independent Redis nodes: the Redlock algorithm, with the interface of node-redlock.
 *
 * The lock opens its own connection to each node, with the options of the client. It neither uses nor closes the client itself.
 * These connections do not keep the process alive: it ends when the clients are closed and no call is in progress.
 * {@link Redlock.quit} closes them at once.
 *
 * @example
 * ```ts
 * const redlock = new Redlock(urls.map((url) => new Redis(url)), { retryCount: 5 });
 * const total = await redlock.using(['account:1', 'account:2'], 5_000, async (signal) => {
 *   const sum = await slowWork();
 *   signal.throwIfAborted();
 *   return sum;
 * });
 * ```
 */
export class Redlock extends EventEmitter<RedlockEvents> implements AsyncDisposable {
  readonly #group: NodeGroup;
  readonly #watch: Watch;
  readonly #settings: ResolvedSettings;
  readonly #machine: LockRuntime;
  /** Acquisitions under way. */
  readonly #acquiring = new Slots<LockRun>();
  #recording: LockRecording | null = null;
  #closed = false;
  #lastPolicy: {
    readonly settings: ResolvedSettings;
    readonly ttlMs: number;
    readonly autoExtend: boolean;
    readonly policy: LockPolicy;
  } | null = null;

  /**
   * @param clients - One client for each node: of ioredis 5 or 6, iovalkey and other forks, `createClient` of node-redis 5 or 6,
   * Upstash's REST client or `{ url, token }`, a URL, or a {@link RedlockTransport} for any other; all kinds may be mixed. Anything
   * else is rejected. A connection of another library than ioredis sets a key of its own twice and checks it before the node gets a
   * vote. This detects a client whose SET sets no lock. Every connection costs one INFO. The nodes must be independent of each
   * other: masters without a common replica set, that do not fail together. An odd number is best. A node may be a Cluster, or be
   * found through Sentinel. A failover in it then counts as data loss on the node: replication is asynchronous, so the new master
   * may not have the key. `votesWanted` decides how many such nodes a lock tolerates. On a Cluster, all resources of one lock need
   * the same hash tag (`{order:1}:a`, `{order:1}:b`), or it has no vote; and only {@link Redlock.quit} lets the process end.
   * @param settings - See {@link RedlockSettings}.
   * @param machine - For simulations with their own clock or random source; else omitted.
   * @throws LockError `ERR_LOCK_CONFIG` for no nodes, the same server twice (by its address; another database of it is
   * the same server), an argument that is not a client, or a wrong or unknown setting. Two addresses of one server are detected
   * only after connecting, by {@link Redlock.acquire}.
   */
  constructor(clients: Iterable<AnyClient>, settings: RedlockSettings = {}, machine?: LockRuntime) {
    super();
    const list = readable('The clients', () => checkClients(clients));
    this.#settings = resolveSettings(DEFAULTS, settings, list.length);
    if (machine === undefined) warnOfEvenNumber(list.length);
    this.#machine = machine ?? newRuntime();
    this.#watch = new Watch(this);
    this.#group = new NodeGroup(list, this.#machine.clock, this.#watch, (error, node) => this.#tell(error, node.index));
  }

  #tell(error: Error, node: number): void {
    this.#watch.logError(error, node);
    if (this.listenerCount('error') > 0) emitSafely(() => this.emit('error', error, node));
  }

  /**
   * Acquires a lock on all `resources` together, or on none of them.
   *
   * @param resources - Keys on the nodes; a lock on several excludes locks on any of them.
   * @param ttlMs - Time to live, whole ms. The lock is valid for this time minus the drift allowance and the duration of the acquisition.
   * @param settings - For this lock only; with `signal`, which ends the acquisition at once.
   * @throws LockError `ERR_LOCK_CONTENDED`, `ERR_LOCK_QUORUM_UNREACHABLE` or `ERR_LOCK_TIMEOUT` by the last attempt,
   * `ERR_LOCK_COUNTERS_LOST` at once if no fencing token can be made,
   * `ERR_LOCK_ABORTED` with the signal's reason as cause, or because of `quit`, `ERR_LOCK_CONFIG` for invalid arguments.
   */
  acquire(resources: string | readonly string[], ttlMs: number, settings: AcquireSettings = {}): Promise<Lock> {
    return this.#acquire(resources, ttlMs, settings, false);
  }

  /**
   * Acquires a free lock in one attempt, or resolves with `null` at once if another client has it.
   *
   * @throws What {@link Redlock.acquire} throws, except `ERR_LOCK_CONTENDED`.
   */
  async tryAcquire(
    resources: string | readonly string[],
    ttlMs: number,
    settings: AcquireSettings = {},
  ): Promise<Lock | null> {
    try {
      return await this.#acquire(
        resources,
        ttlMs,
        isRecord(settings) ? readable('The settings', () => ({ ...settings, retryCount: 0 })) : settings,
        false,
      );
    } catch (error) {
      if (error instanceof LockError && error.code === 'ERR_LOCK_CONTENDED') return null;
      throw error;
    }
  }

  /**
   * Reports who holds a resource, without acquiring it: see {@link Inspection}. Waits for `nodeTimeoutMs` at most. Unreachable
   * nodes are not an error.
   *
   * @throws LockError `ERR_LOCK_CONFIG` unless the argument is one resource.
   */
  async inspect(resource: string): Promise<Inspection> {
    const [key = '', ...others] = checkResources(resource);
    if (others.length > 0) throw configError('inspect looks at one resource, not at a list.', 'acquire');
    this.#checkOpen();
    const { nodeTimeoutMs } = this.#settings;
    await this.#group.whenConnected(nodeTimeoutMs);
    this.#checkOpen();
    return inspect(this.#group.nodes, key, nodeTimeoutMs);
  }

  /**
   * Initializes the fencing counters of new nodes, or restores them after `ERR_LOCK_COUNTERS_LOST`. Call it once, by an operator or a
   * deployment, and not when a service starts: only an operator who knows which tokens were issued can tell new nodes from nodes
   * that have lost their data.
   *
   * @param greatest - The greatest counter of a fencing token so far, which the protected resources have stored. For new
   * nodes 0; then all of them must answer, and none may have a counter. Later tokens are greater.
   * @throws LockError `ERR_LOCK_CONFIG` if a node has a greater counter, `ERR_LOCK_QUORUM_UNREACHABLE` if fewer than a
   * quorum answer within 2 s, or `nodeTimeoutMs` if that is more; then it can be called again.
   */
  async recoverFencing(greatest: number): Promise<void> {
    this.#checkOpen();
    const withinMs = Math.max(RECOVERY_MS, this.#settings.nodeTimeoutMs);
    await this.#group.whenConnected(withinMs);
    await recoverCounters(this.#group.nodes, greatest, withinMs);
  }

  /**
   * Records locks that are acquired from now on: their history, for `lockstep verify`, and each step of their state machines. The
   * recording is in memory, with at most `maxEntries`; ended locks are dropped first. Nothing is written until you ask for it.
   * A further call begins another recording, which replaces this one for new locks.
   *
   * @example
   * ```ts
   * const recording = redlock.record({ client: 'worker-1' });
   * await redlock.using('invoice:42', 10_000, charge);
   * writeFileSync('worker-1.jsonl', recording.history()); // lockstep verify worker-1.jsonl
   * ```
   * @throws LockError `ERR_LOCK_CONFIG` for wrong options.
   */
  record(options: RecordingOptions): Recording {
    this.#recording = new LockRecording(options, this.#machine.clock);
    return this.#recording;
  }

  /** Extends a lock: see {@link Lock.extend}. */
  async extend(lock: Lock, ttlMs: number): Promise<Lock> {
    return checkLock(lock, 'extend').extend(ttlMs);
  }

  /** Releases a lock: see {@link Lock.release}. */
  async release(lock: Lock): Promise<ReleaseReport> {
    return checkLock(lock, 'release').release();
  }

  /**
   * Runs `routine` under the lock, extends the lock while it runs (see `automaticExtensionThreshold` and `maxExtensions`),
   * releases it, and resolves with the result of the routine. The routine's signal aborts if the lock is lost. The routine should
   * then stop; its result is returned in any case.
   *
   * @throws What {@link Redlock.acquire} throws, or what the routine throws.
   */
  using<T>(resources: string | readonly string[], ttlMs: number, routine: Routine<T>): Promise<T>;
  using<T>(
    resources: string | readonly string[],
    ttlMs: number,
    settings: AcquireSettings,
    routine: Routine<T>,
  ): Promise<T>;
  async using<T>(
    resources: string | readonly string[],
    ttlMs: number,
    settingsOrRoutine: AcquireSettings | Routine<T>,
    maybeRoutine?: Routine<T>,
  ): Promise<T> {
    const [settings, routine] =
      typeof settingsOrRoutine === 'function' ? [{}, settingsOrRoutine] : [settingsOrRoutine, maybeRoutine];
    if (typeof routine !== 'function') throw configError('using needs a routine to run.', 'acquire');
    const lock = await this.#acquire(resources, ttlMs, settings, true);
    try {
      return await routine(lock.signal, lock);
    } finally {
      await lock.release();
    }
  }

  /**
   * Ends acquisitions in progress (`ERR_LOCK_ABORTED`), sends all outstanding releases, waits for the answers, and closes the
   * connections to the nodes, but not the clients. It waits at most `nodeTimeoutMs` for a silent node, and at most 10 s for any. The
   * event `error` reports keys whose release a node has not confirmed; they expire with their TTL. Locks that are still held are
   * not released; they expire too.
   */
  async quit(): Promise<void> {
    this.#closed = true;
    for (const run of this.#acquiring.all()) run.abandon(this.#closedError());
    await this.#group.close(this.#settings.nodeTimeoutMs);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.quit();
  }

  async #acquire(
    resources: string | readonly string[],
    ttlMs: number,
    given: AcquireSettings,
    autoExtend: boolean,
  ): Promise<Lock> {
    const keys = checkResources(resources);
    const { nodes } = this.#group;
    const settings = resolveSettings(this.#settings, given, nodes.length);
    const policy = this.#policyFor(settings, ttlMs, autoExtend);
    const signal = checkSignal(given.signal);
    this.#checkOpen();
    const connected = this.#group.whenConnected(settings.nodeTimeoutMs);
    if (connected !== undefined) {
      await orAborted(connected, signal);
      if (this.#closed) throw abortedBefore(keys, this.#closedError());
    }
    if (this.#group.fault !== null) throw configError(this.#group.fault, 'acquire');
    if (signal?.aborted) throw abortedBefore(keys, signal.reason);
    const run = new LockRun(this.#group, policy, keys, this.#machine);
    if (this.#recording !== null) run.log = this.#recording.begin(run);
    const forget = signal === undefined ? undefined : onAbort(signal, () => run.abandon(signal.reason));
    const slot = this.#acquiring.add(run);
    try {
      await run.acquire(ttlMs);
    } catch (error) {
      throw withCallers(error);
    } finally {
      this.#acquiring.remove(slot);
      forget?.();
    }
    return new Lock(run);
  }

  /** Most locks are asked for with the same settings and the same TTL as the last one. */
  #policyFor(settings: ResolvedSettings, ttlMs: number, autoExtend: boolean): LockPolicy {
    const last = this.#lastPolicy;
    if (last?.settings === settings && last.ttlMs === ttlMs && last.autoExtend === autoExtend) return last.policy;
    const policy = policyFor(settings, ttlMs, autoExtend);
    this.#lastPolicy = { settings, ttlMs, autoExtend, policy };
    return policy;
  }

  #checkOpen(): void {
    if (this.#closed) throw this.#closedError();
  }

  #closedError(): LockError {
    return configError('This Redlock has been closed by quit().', 'acquire');
  }
}

function checkLock(lock: Lock, operation: LockOperation): Lock {
  if (readable('The lock', () => lock instanceof Lock)) return lock;
  throw configError(`${operation} needs a lock that was acquired, not ${show(lock)}.`, operation);
}

function abortedBefore(resources: readonly string[], reason: unknown): LockError {
  return new LockError(`The acquisition of ${resources.join(', ')} was aborted.`, {
    code: 'ERR_LOCK_ABORTED',
    operation: 'acquire',
    resources,
    cause: reason,
  });
}
