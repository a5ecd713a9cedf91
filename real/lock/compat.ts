import { EventEmitter } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type AnyClient,
  LockError,
  type LockSignal,
  type Lock as LockstepLock,
  Redlock as LockstepRedlock,
  type LockVotes,
  type ReleaseReport,
} from './index.js';

/** Settings of node-redlock 5, with its defaults. */
export interface Settings {
  readonly driftFactor: number;
  readonly retryCount: number;
  readonly retryDelay: number;
  readonly retryJitter: number;
  readonly automaticExtensionThreshold: number;
}

/** The votes of one attempt. */
export interface ExecutionStats {
  readonly membershipSize: number;
  readonly quorumSize: number;
  readonly votesFor: Set<AnyClient>;
  readonly votesAgainst: Map<AnyClient, Error>;
}

/** What an operation came to. */
export interface ExecutionResult {
  readonly attempts: readonly Promise<ExecutionStats>[];
}

/** As in node-redlock: aborted, with `error`, when the lock is lost. */
export type RedlockAbortSignal = LockSignal;

/** A vote against: another client has one of the resources, or, on an extension or a release, the key is not this lock's. */
export class ResourceLockedError extends Error {
  override readonly name: string = 'ResourceLockedError';
}

/** An operation had no quorum in all its attempts. */
export class ExecutionError extends Error {
  override readonly name: string = 'ExecutionError';
  readonly attempts: readonly Promise<ExecutionStats>[];

  constructor(message: string, attempts: readonly Promise<ExecutionStats>[], options?: ErrorOptions) {
    super(message, options);
    this.attempts = attempts;
  }
}

const DEFAULTS: Settings = {
  driftFactor: 0.01,
  retryCount: 10,
  retryDelay: 200,
  retryJitter: 100,
  automaticExtensionThreshold: 500,
};
/** node-redlock waits as long as the client does. Only where no quorum answers does it matter, ms. */
const NODE_TIMEOUT_MS = 1000;
const NO_QUORUM = 'The operation was unable to achieve a quorum during its retry window.';

/** A lock that was acquired. `extend` resolves with another one, and ends this. */
export class Lock {
  readonly redlock: Redlock;
  readonly resources: string[];
  readonly value: string;
  readonly attempts: readonly Promise<ExecutionStats>[];
  /** When the validity ends, ms since the epoch; 0 once it was extended or released. */
  expiration: number;
  /** The lock behind it. */
  readonly inner: LockstepLock;

  constructor(redlock: Redlock, inner: LockstepLock, attempts: readonly Promise<ExecutionStats>[]) {
    this.redlock = redlock;
    this.resources = [...inner.resources];
    this.value = inner.value;
    this.attempts = attempts;
    this.expiration = inner.expiration;
    this.inner = inner;
  }

  release(): Promise<ExecutionResult> {
    return this.redlock.release(this);
  }

  extend(duration: number): Promise<Lock> {
    return this.redlock.extend(this, duration);
  }
}

/**
 * The lock with the interface of node-redlock 5: its names, settings, errors and events. See the guide in the README for
 * what is different.
 */
export class Redlock extends EventEmitter {
  readonly clients: Set<AnyClient>;
  readonly settings: Settings;
  readonly #inner: LockstepRedlock;

  /** @throws Error for no clients, and for scripts, which cannot be replaced. */
  constructor(clients: Iterable<AnyClient>, settings: Partial<Settings> = {}, scripts: object = {}) {
    super();
    // As in node-redlock, nobody needs to listen.
    this.on('error', () => {});
    this.clients = new Set(clients);
    if (this.clients.size === 0) throw new Error('Redlock must be instantiated with at least one redis client.');
    if (Object.keys(scripts).length > 0) throw new Error('The scripts of this lock cannot be replaced.');
    this.settings = numbersOf(settings, DEFAULTS);
    this.#inner = new LockstepRedlock(this.clients, { ...this.settings, nodeTimeoutMs: NODE_TIMEOUT_MS });
    this.#inner.on('error', (error) => this.emit('error', error));
  }

  /** Closes the lock's connections and, as node-redlock does, the clients. */
  async quit(): Promise<void> {
    await this.#inner.quit();
    await Promise.all([...this.clients].map(quitClient));
  }

  /** @throws ExecutionError if no attempt got a quorum. */
  async acquire(resources: string[], duration: number, settings: Partial<Settings> = {}): Promise<Lock> {
    const chosen = this.#checked(duration, settings);
    const { value, attempts } = await this.#attempt(chosen, () =>
      this.#inner.acquire(resources, duration, { ...chosen, retryCount: 0 }),
    );
    return new Lock(this, value, [...attempts, this.#statsOf(value.votes, resources.length, undefined)]);
  }

  /** @throws ExecutionError if no quorum of the nodes had the lock's keys. */
  async release(lock: Lock, _settings: Partial<Settings> = {}): Promise<ExecutionResult> {
    lock.expiration = 0;
    const { votes } = lock.inner;
    const report = await lock.inner.release();
    const stats = this.#statsOf(votesOfRelease(report, votes), lock.resources.length, undefined);
    // What has not answered yet is taken to have had it, as it was decided without.
    if (report.released + report.unanswered < votes.quorum) throw new ExecutionError(NO_QUORUM, [stats]);
    return { attempts: [stats] };
  }

  /** @throws ExecutionError if the lock has expired, or no attempt got a quorum. */
  async extend(existing: Lock, duration: number, settings: Partial<Settings> = {}): Promise<Lock> {
    const chosen = this.#checked(duration, settings);
    const { inner, resources } = existing;
    if (existing.expiration === 0 || inner.remaining() === 0) {
      throw new ExecutionError('Cannot extend an already-expired lock.', []);
    }
    const { attempts } = await this.#attempt(chosen, () => inner.extend(duration));
    existing.expiration = 0;
    return new Lock(this, inner, [...attempts, this.#statsOf(inner.votes, resources.length, undefined)]);
  }

  /**
   * Runs `routine` while holding the lock, which is extended as long as it runs.
   *
   * @throws What the routine throws, or ExecutionError if there was no lock, or it was lost.
   */
  using<T>(
    resources: string[],
    duration: number,
    settings: Partial<Settings>,
    routine?: (signal: RedlockAbortSignal) => Promise<T>,
  ): Promise<T>;
  using<T>(resources: string[], duration: number, routine: (signal: RedlockAbortSignal) => Promise<T>): Promise<T>;
  async using<T>(
    resources: string[],
    duration: number,
    settingsOrRoutine: Partial<Settings> | ((signal: RedlockAbortSignal) => Promise<T>),
    maybeRoutine?: (signal: RedlockAbortSignal) => Promise<T>,
  ): Promise<T> {
    const [settings, routine] =
      typeof settingsOrRoutine === 'function' ? [{}, settingsOrRoutine] : [settingsOrRoutine, maybeRoutine];
    if (typeof routine !== 'function') throw new Error('INVARIANT: routine is not a function.');
    const chosen = this.#checked(duration, settings);
    if (chosen.automaticExtensionThreshold > duration - 100) {
      throw new Error(
        'A lock `duration` must be at least 100ms greater than the `automaticExtensionThreshold` setting.',
      );
    }
    let isStarted = false;
    const run = async (signal: LockSignal, inner: LockstepLock): Promise<T> => {
      isStarted = true;
      try {
        return await routine(signal);
      } finally {
        await this.release(new Lock(this, inner, []));
      }
    };
    const { value } = await this.#attempt(
      chosen,
      () => this.#inner.using(resources, duration, { ...chosen, retryCount: 0 }, run),
      () => isStarted,
    );
    return value;
  }

  #checked(duration: number, settings: Partial<Settings>): Settings {
    if (Math.floor(duration) !== duration) throw new Error('Duration must be an integer value in milliseconds.');
    return numbersOf(settings, this.settings);
  }

  /**
   * Tries as node-redlock does: each attempt by itself, with a pause in between.
   *
   * @param isAcquired - Whether what fails is no longer the acquisition: that is not tried again.
   */
  async #attempt<T>(
    { retryCount, retryDelay, retryJitter }: Settings,
    act: () => Promise<T>,
    isAcquired: () => boolean = () => false,
  ): Promise<{ value: T; attempts: Promise<ExecutionStats>[] }> {
    const attempts: Promise<ExecutionStats>[] = [];
    for (;;) {
      try {
        return { value: await act(), attempts };
      } catch (error) {
        if (isAcquired() || !(error instanceof LockError) || error.votes === null) throw error;
        attempts.push(this.#statsOf(error.votes, error.resources.length, error.cause));
        const isLast = retryCount !== -1 && attempts.length > retryCount;
        if (isLast && error.operation === 'acquire') await this.#whenCleanedUp(error);
        if (isLast || error.code === 'ERR_LOCK_LOST') throw new ExecutionError(NO_QUORUM, attempts, { cause: error });
      }
      await sleep(Math.max(0, retryDelay + Math.floor((Math.random() * 2 - 1) * retryJitter)));
    }
  }

  /** As node-redlock waits for it. Each node answers after what it was sent before: the clean-up of the attempt. */
  async #whenCleanedUp({ resources: [resource = ''] }: LockError): Promise<void> {
    await this.#inner.inspect(resource).catch(() => undefined);
  }

  /** Each vote against is emitted as an error, as in node-redlock. */
  async #statsOf(votes: LockVotes, resources: number, cause: unknown): Promise<ExecutionStats> {
    const clients = [...this.clients];
    const of = (nodes: readonly number[]): AnyClient[] => clients.filter((_, node) => nodes.includes(node));
    const votesAgainst = new Map<AnyClient, Error>();
    for (const client of of(votes.refused)) {
      const message = `The operation was applied to: 0 of the ${resources} requested resources.`;
      votesAgainst.set(client, new ResourceLockedError(message));
    }
    for (const client of of(votes.failed)) votesAgainst.set(client, failureOf(cause));
    for (const error of votesAgainst.values()) this.emit('error', error);
    return {
      membershipSize: votes.nodes,
      quorumSize: votes.quorum,
      votesFor: new Set(of(votes.granted)),
      votesAgainst,
    };
  }
}

/** A client of node-redis that was never connected, as the lock does not need it to be, has nothing to quit. */
async function quitClient(client: AnyClient): Promise<void> {
  if (typeof client !== 'object' || Reflect.get(client, 'isOpen') === false) return;
  const quit: unknown = Reflect.get(client, 'quit');
  if (typeof quit === 'function') await quit.call(client);
}

/** Why a node failed, in ioredis's words where it is not connected. */
function failureOf(cause: unknown): Error {
  if (!(cause instanceof Error)) return new Error('The node did not answer in time.');
  return /^[A-Z][A-Z0-9]+ /.test(cause.message) ? cause : new Error('Connection is closed.', { cause });
}

/** A release tells numbers of nodes alone: those that had the lock come first. */
function votesOfRelease(report: ReleaseReport, votes: LockVotes): LockVotes {
  const nodes = [...new Set([...votes.granted, ...Array.from({ length: votes.nodes }, (_, node) => node)])];
  const take = (count: number): number[] => nodes.splice(0, count);
  const granted = take(report.released);
  const refused = take(report.alreadyGone);
  return { ...votes, granted, refused, failed: take(report.unreachable), unanswered: nodes };
}

function numbersOf(given: Partial<Settings>, base: Settings): Settings {
  const pick = (name: keyof Settings): number => (typeof given[name] === 'number' ? given[name] : base[name]);
  return {
    driftFactor: pick('driftFactor'),
    retryCount: pick('retryCount'),
    retryDelay: pick('retryDelay'),
    retryJitter: pick('retryJitter'),
    automaticExtensionThreshold: pick('automaticExtensionThreshold'),
  };
}

// biome-ignore lint/style/noDefaultExport: programs import it from node-redlock in this way.
export { Redlock as default };
