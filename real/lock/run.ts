import {
  allNodes,
  type Command,
  type FencingToken,
  type LocalTime,
  type LockEvent,
  type LockPolicy,
  localTime,
  members,
  type NodeSet,
  type Outcome,
  SOUND,
  size,
  type Timer,
  toleratedDataLoss,
  union,
  type Votes,
  votesOf,
  without,
} from '../../core/index.js';
import { LockDriver, type SharedNodes } from './driver.js';
import type { LockError, LockErrorCode, LockVotes } from './errors.js';
import type { LockRuntime } from './machine.js';
import { acquisitionFailed, extensionFailed, lockLost } from './outcomes.js';
import type { WaitingQueue } from './queue.js';
import type { LockLog } from './recording.js';
import type { LockNotice, Watch } from './watch.js';

const lists = new Map<NodeSet, readonly number[]>();
/** All sets of ten nodes: of more nodes there are too many to keep. */
const MOST_LISTS = 1024;

/** The members of a set, frozen: events and errors share the list. */
function listOf(set: NodeSet): readonly number[] {
  const known = lists.get(set);
  if (known !== undefined) return known;
  const made = Object.freeze(members(set));
  if (lists.size < MOST_LISTS) lists.set(set, made);
  return made;
}

/** Result of a release, as numbers of nodes. */
export interface ReleaseReport {
  /** Nodes that deleted the key. */
  readonly released: number;
  /** Nodes without the lock's key: it had expired, or was never set. */
  readonly alreadyGone: number;
  /** Nodes that are not connected, answered with an error or too late: the key expires with its TTL. */
  readonly unreachable: number;
  /** Nodes that had not answered when a quorum had. They get the release too. */
  readonly unanswered: number;
}

interface Waiter<T> {
  resolve(value: T): void;
  reject(reason: LockError): void;
}

/** The first may wait for something else besides, or try more seldom: nobody waits for it for ever. */
const MOST_SKIPPED = 10;

const START: LocalTime = localTime(0);

const OPERATIONS: Readonly<Record<Outcome['type'], LockNotice['operation']>> = {
  acquired: 'acquire',
  failed: 'acquire',
  extended: 'extend',
  'not-extended': 'extend',
  lost: 'hold',
  released: 'release',
};

function eventOf(outcome: Outcome): LockNotice['event'] {
  if (outcome.type === 'failed') return outcome.reason === 'contended' ? 'contended' : 'failed';
  return outcome.type === 'not-extended' ? 'failed' : outcome.type;
}

/** For one that begins with a pause, which then waits no longer than with all its attempts. */
function withoutFirstTry(policy: LockPolicy): LockPolicy {
  const { settings, rules } = policy;
  return settings.tries === null ? policy : { settings: { ...settings, tries: settings.tries - 1 }, rules };
}

/** One lock as its owner has it: promises and errors for what {@link LockDriver} tells. */
export class LockRun extends LockDriver {
  /** Set when the claim has ended by itself. */
  lost: LockError | null = null;
  /** Called once when that happens. */
  onLost: ((reason: LockError) => void) | null = null;
  /** The fencing token, once the lock is held, if the policy has them. */
  fence: FencingToken | null = null;
  /** Where what happens is noted, if it is recorded. */
  log: LockLog | null = null;
  #acquisition: Waiter<void> | null = null;
  #extension: Waiter<void> | null = null;
  #extensionFailure: LockError | null = null;
  #afterRound: (() => void)[] = [];
  #acquiredAt: LocalTime = START;
  #releasedAt: LocalTime = START;
  readonly #watch: Watch;
  readonly #queue: WaitingQueue;
  #isQueued = false;
  /** When it began to wait behind others without an attempt of its own; `null` if it does not begin so. */
  readonly #queuedAt: LocalTime | null;
  /** Attempts that it left to the first of the queue since its last one. */
  #skipped = 0;
  #release: { readonly promise: Promise<ReleaseReport>; settle(report: ReleaseReport): void } | null = null;

  constructor(
    group: SharedNodes & { readonly watch: Watch; readonly queue: WaitingQueue },
    policy: LockPolicy,
    resources: readonly string[],
    machine: LockRuntime,
  ) {
    const { tries } = policy.settings;
    const beginsInQueue = tries !== 1 && group.queue.wouldOvertake(resources);
    super(group, beginsInQueue ? withoutFirstTry(policy) : policy, resources, machine);
    this.#queuedAt = beginsInQueue ? machine.clock.now() : null;
    this.#watch = group.watch;
    this.#queue = group.queue;
  }

  /** Resolves when the lock is held. */
  acquire(ttlMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#acquisition = { resolve, reject };
      // Not `run`: a closure for each lock shows in a benchmark.
      if (this.#queuedAt !== null) this.#startInQueue(ttlMs, this.#queuedAt);
      else if (this.pacer.begins()) this.start(ttlMs);
      else this.pacer.wait(() => this.start(ttlMs));
    });
  }

  #startInQueue(ttlMs: number, now: LocalTime): void {
    this.startAfterPause(ttlMs, now);
    this.#joinQueue();
  }

  protected override start(ttlMs: number): void {
    // Else it was given up while it waited for its turn.
    if (this.#acquisition !== null) super.start(ttlMs);
  }

  /** Gives up an acquisition because of `reason`; no effect on a lock that is held. */
  abandon(reason: unknown): void {
    if (this.#acquisition === null) return;
    this.cause = reason;
    const now = this.machine.clock.now();
    if (this.state.phase === 'idle') {
      this.stop();
      const votes = votesOf(this.state.votes, SOUND.quorum(this.nodes, 'acquire'));
      this.onOutcome({ type: 'failed', reason: 'abandoned', attempts: 0, votes }, now);
    } else this.feed({ type: 'release', now });
  }

  /** Resolves when the lock is held for `ttlMs` from now. Waits its turn behind an automatic extension. */
  extend(ttlMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.pacer.run(() => this.#startExtension(ttlMs, { resolve, reject }));
    });
  }

  #startExtension(ttlMs: number, waiter: Waiter<void>): void {
    if (this.state.extension.isOpen) {
      this.#afterRound.push(() => this.#startExtension(ttlMs, waiter));
      return;
    }
    this.#extension = waiter;
    this.feed({ type: 'extend', now: this.machine.clock.now(), ttlMs: this.counted(ttlMs) });
  }

  /** Gives the lock back. However often it is called, it is released once. */
  release(): Promise<ReleaseReport> {
    if (this.#release === null) {
      let settle: (report: ReleaseReport) => void = () => {};
      const promise = new Promise<ReleaseReport>((resolve) => {
        settle = resolve;
      });
      this.#release = { promise, settle };
      this.#releasedAt = this.machine.clock.now();
      this.feed({ type: 'release', now: this.#releasedAt });
    }
    return this.#release.promise;
  }

  /** When the claim ends, ms since the epoch, by what the wall clock says now. */
  get expirationMs(): number {
    return this.machine.clock.wallMsAt(this.state.hold.deadline);
  }

  get token(): string {
    return String(this.state.attempt.token);
  }

  /** What is left of the claim, µs; 0 when it has ended. The clock decides, even if the timer lags behind it. */
  remainingUs(): number {
    if (this.state.phase !== 'held') return 0;
    const now = this.machine.clock.now();
    if (now >= this.state.hold.deadline) this.feed({ type: 'timer', now, timer: 'expiry', chance: null });
    return Math.max(0, this.state.hold.deadline - now);
  }

  get votes(): LockVotes {
    return this.votesFrom(votesOf(this.state.votes, this.state.electorate.needed));
  }

  get toleratedDataLoss(): number {
    return toleratedDataLoss(size(this.state.votes.yes), this.state.electorate.needed, this.nodes);
  }

  get held(): boolean {
    return this.state.phase === 'held' && this.machine.clock.now() < this.state.hold.deadline;
  }

  votesFrom({ granted, refused, failed, quorum }: Votes): LockVotes {
    const { nodes } = this;
    const unanswered = without(allNodes(nodes), union(granted, union(refused, failed)));
    return {
      granted: listOf(granted),
      refused: listOf(refused),
      failed: listOf(failed),
      unanswered: listOf(unanswered),
      quorum,
      nodes,
    };
  }

  protected override feed(event: LockEvent): void {
    this.log?.onEvent(this.state, event);
    super.feed(event);
  }

  override send(lock: LockDriver, to: NodeSet, command: Command, now: LocalTime): void {
    this.log?.onEffect(this.state, { type: 'send', to, command });
    super.send(lock, to, command, now);
  }

  override cancel(lock: LockDriver, timer: Timer): void {
    this.log?.onEffect(this.state, { type: 'cancel', timer });
    super.cancel(lock, timer);
  }

  override report(lock: LockDriver, outcome: Outcome): void {
    this.log?.onEffect(this.state, { type: 'report', outcome });
    super.report(lock, outcome);
  }

  override arm(lock: LockDriver, timer: Timer, at: LocalTime, now: LocalTime): void {
    this.log?.onEffect(this.state, { type: 'arm', timer, at });
    super.arm(lock, timer, at, now);
    if (timer === 'retry') this.#joinQueue();
  }

  #joinQueue(): void {
    this.#isQueued = true;
    this.#queue.join(this);
  }

  protected override mayTry(): boolean {
    const isDue = this.policy.settings.tries !== null || this.#skipped === MOST_SKIPPED || this.#queue.isFirst(this);
    this.#skipped = isDue ? 0 : this.#skipped + 1;
    return isDue;
  }

  protected override onOutcome(outcome: Outcome, now: LocalTime): void {
    if (this.#isQueued && (outcome.type === 'acquired' || outcome.type === 'failed')) {
      this.#isQueued = false;
      this.#queue.leave(this);
    }
    if (outcome.type === 'acquired') this.#acquiredAt = now;
    const event = eventOf(outcome);
    if (this.#watch.wants(event)) this.#watch.tell(this.#noticeOf(event, outcome, now));
    switch (outcome.type) {
      case 'acquired':
        this.fence = outcome.fence;
        this.#takeAcquisition()?.resolve();
        break;
      case 'failed':
        this.#takeAcquisition()?.reject(acquisitionFailed(this, outcome, this.cause));
        break;
      case 'extended':
        this.#extensionFailure = null;
        this.#takeExtension()?.resolve();
        this.#endRound();
        break;
      case 'not-extended':
        this.#reportNotExtended(outcome);
        this.#endRound();
        break;
      case 'lost':
        this.#queue.wake(this.resources);
        this.lost = lockLost(this, this.#extensionFailure);
        this.onLost?.(this.lost);
        break;
      case 'released':
        this.#queue.wake(this.resources);
        this.#reportReleased(outcome);
        break;
    }
  }

  #noticeOf(event: LockNotice['event'], outcome: Outcome, now: LocalTime): LockNotice {
    const { attempt, calledAt, extension, hold } = this.state;
    const operation = OPERATIONS[outcome.type];
    const isOpened = outcome.type !== 'not-extended' || /^(lost|unreachable|too-late)$/.test(outcome.reason);
    const from = {
      acquire: this.#queuedAt ?? calledAt,
      extend: isOpened ? extension.startedAt : now,
      hold: now,
      release: this.#releasedAt,
    };
    return {
      event,
      operation,
      resources: this.resources,
      durationMs: this.state.phase === 'idle' && this.#queuedAt === null ? 0 : (now - from[operation]) / 1000,
      heldMs: operation === 'acquire' ? 0 : (now - this.#acquiredAt) / 1000,
      remainingMs: this.state.phase === 'held' ? Math.max(0, hold.deadline - now) / 1000 : 0,
      attempts: this.state.phase === 'idle' ? 0 : attempt.number + 1,
      extensions: hold.extensions,
      votes: outcome.type === 'lost' ? this.votes : this.votesFrom(outcome.votes),
      code: this.#codeOf(outcome),
    };
  }

  #codeOf(outcome: Outcome): LockErrorCode | null {
    if (outcome.type === 'failed') return acquisitionFailed(this, outcome, null).code;
    if (outcome.type === 'lost') return 'ERR_LOCK_LOST';
    return outcome.type === 'not-extended' ? extensionFailed(this, outcome, null, null).code : null;
  }

  #reportNotExtended(outcome: Outcome & { type: 'not-extended' }): void {
    const failure = extensionFailed(this, outcome, this.policy.settings.maxExtensions, this.cause);
    const waiter = this.#takeExtension();
    // Nobody asked for an automatic one; why it failed is why the lock is lost, not that the end cut off the last try.
    if (waiter !== null) waiter.reject(failure);
    else if (outcome.reason !== 'too-late' || this.#extensionFailure === null) this.#extensionFailure = failure;
  }

  #reportReleased({ votes }: Outcome & { type: 'released' }): void {
    const released = size(votes.granted);
    const alreadyGone = size(votes.refused);
    const unreachable = size(votes.failed);
    const unanswered = this.nodes - released - alreadyGone - unreachable;
    this.#release?.settle({ released, alreadyGone, unreachable, unanswered });
  }

  #takeAcquisition(): Waiter<void> | null {
    const waiter = this.#acquisition;
    this.#acquisition = null;
    return waiter;
  }

  #takeExtension(): Waiter<void> | null {
    const waiter = this.#extension;
    this.#extension = null;
    return waiter;
  }

  #endRound(): void {
    const waiting = this.#afterRound;
    this.#afterRound = [];
    for (const resume of waiting) resume();
  }
}
