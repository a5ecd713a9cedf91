import { type Answer, type LocalTime, type NodeSet, size } from '../core/index.js';
import type { ProcessName } from '../scenarios/index.js';
import type { Message } from './message.js';
import { nodeName } from './node-name.js';
import type { HoldEndCause, KeyRemovalCause, Observer } from './observer.js';
import type { Process } from './process.js';
import type { SimLock } from './sim-lock.js';
import { type TrueTime, trueTime } from './time.js';
import { type Detail, Kind, Trace } from './trace.js';

/**
 * What happened so far: true time, the trace with its hash, and the numbers given to tokens and resources. All parts of
 * the world tell it what they do; it tells the observer.
 */
export class RunContext {
  readonly trace: Trace;
  observer: Observer;
  now: TrueTime = trueTime(0);
  /** Sequence number of the trace event from which what happens now follows, or -1. */
  cause = -1;
  private clients: readonly ProcessName[];
  /** Those that count; what lies behind is of earlier runs. */
  private readonly resources: string[] = [];
  private resourceCount = 0;
  /** By tick of a clock: the token drawn in it; made when it is needed. */
  private clockTokens: Map<number, number> | null = null;
  /** By token: the lock that uses it. Token 0 is nobody's. */
  private readonly owners: (SimLock | null)[] = [null];
  private tokens = 1;

  constructor(clients: readonly ProcessName[], observer: Observer, keepTrace: boolean) {
    this.clients = clients;
    this.observer = observer;
    this.trace = new Trace(keepTrace);
  }

  /** Resets. */
  reset(clients: readonly ProcessName[], observer: Observer, keepTrace: boolean): void {
    this.clients = clients;
    this.observer = observer;
    this.trace.reset(keepTrace);
    this.now = trueTime(0);
    this.cause = -1;
    this.resourceCount = 0;
    this.clockTokens = null;
    this.tokens = 1;
  }

  /** A token of a lock; of nobody where it is `null`. */
  newToken(lock: SimLock | null): number {
    const token = this.tokens++;
    if (token < this.owners.length) this.owners[token] = lock;
    else this.owners.push(lock);
    return token;
  }

  /** The token of everybody who draws one in this tick, µs, of their clocks. */
  tokenAt(local: LocalTime, tickUs: number, lock: SimLock): number {
    const tick = Math.floor(local / tickUs);
    this.clockTokens ??= new Map();
    const known = this.clockTokens.get(tick);
    if (known !== undefined) return known;
    const token = this.newToken(lock);
    this.clockTokens.set(tick, token);
    return token;
  }

  /** A token is used for another lock from now on. */
  passOn(token: number, lock: SimLock): void {
    this.owners[token] = lock;
  }

  ownerOf(token: number): SimLock | null {
    return token < this.tokens ? (this.owners[token] ?? null) : null;
  }

  keyOf(resource: string): number {
    const { resources, resourceCount } = this;
    for (let key = 0; key < resourceCount; key++) if (resources[key] === resource) return key;
    if (resourceCount < resources.length) resources[resourceCount] = resource;
    else resources.push(resource);
    return this.resourceCount++;
  }

  resourceOf(key: number): string {
    return key < this.resourceCount ? (this.resources[key] ?? '?') : '?';
  }

  /** Notes that something happened to a process, and returns its sequence number. */
  note(code: number, process: Process, a: number, b: number): number {
    const seq = this.trace.note(code, process.traceId, this.now, a, b);
    if (this.trace.keeping) this.keep(code, process);
    return seq;
  }

  private keep(code: number, process: Process): void {
    this.trace.keep(code, process.name, this.now, process.clock.read(this.now), this.cause);
  }

  /** A message that leaves. Its fate is in the hash when it arrives; only a loss has to be noted now. */
  noteSend(code: number, process: Process, message: Message, to: number, answer: Answer | null): number {
    if (code === Kind.lost) return this.noteMessage(code, process, message, to, answer);
    const seq = this.trace.pass();
    if (this.trace.keeping) this.keepMessage(code, process, message, answer);
    return seq;
  }

  /** A message event with what it carries. */
  noteMessage(code: number, process: Process, message: Message, a: number, answer: Answer | null): number {
    const token = message.command.token as unknown as number;
    const seq = this.trace.note(code, process.traceId, this.now, a, token);
    if (this.trace.keeping) this.keepMessage(code, process, message, answer);
    return seq;
  }

  private keepMessage(code: number, process: Process, message: Message, answer: Answer | null): void {
    this.keep(code, process);
    this.trace.detail(this.messageDetail(message, answer));
  }

  private messageDetail(message: Message, answer: Answer | null): Detail {
    const { operation, attempt, round, token, ttlMs, counter } = message.command;
    return {
      client: this.clients[message.client] ?? '?',
      lock: message.lock,
      operation,
      attempt,
      round,
      node: nodeName(message.node),
      token: token as number,
      ttlMs,
      ...(counter === 0 ? {} : { counter }),
      ...(message.remote === null ? {} : { said: message.remote.said }),
      ...(answer === null ? {} : { answer }),
    };
  }

  // ——— what locks do ———

  attempted(lock: SimLock): void {
    this.observer.attempted(lock, this.now);
  }

  claimed(lock: SimLock): void {
    lock.believing = true;
    lock.findEnd();
    this.noteLock(Kind.claim, lock, lock.voters);
    if (this.trace.keeping) this.trace.detail(this.claimDetail(lock, lock.state.votes.yes));
    this.observer.claimed(lock, this.now);
  }

  /** @param yes - The places of the nodes that have extended it. */
  extended(lock: SimLock, yes: NodeSet = lock.state.votes.yes): void {
    this.observer.extends(lock, this.now);
    lock.believing = true;
    lock.findEnd();
    this.noteLock(Kind.extended, lock, lock.voters);
    if (this.trace.keeping) this.trace.detail(this.claimDetail(lock, yes));
    this.observer.extended(lock, this.now);
  }

  private claimDetail(lock: SimLock, yes: NodeSet): Record<string, string | number | readonly string[]> {
    const { state } = lock;
    return {
      ...this.lockDetail(lock),
      granted: lock.list.at(yes),
      votes: size(yes),
      quorum: state.electorate.needed,
      nodes: state.electorate.nodes,
      deadlineUs: state.hold.deadline,
      ...(state.counters.counter === 0 ? {} : { counter: state.counters.counter }),
      endUs: lock.client.clock.when(state.hold.deadline, this.now),
    };
  }

  private lockDetail(lock: SimLock): Record<string, string | number | readonly string[]> {
    return { lock: lock.number, resources: lock.plan.resources, token: lock.token };
  }

  /** An outcome that changes nobody's belief. */
  outcome(code: number, lock: SimLock, reason: string): void {
    this.noteLock(code, lock, reason.length);
    if (this.trace.keeping) this.trace.detail({ ...this.lockDetail(lock), reason });
  }

  failed(lock: SimLock, reason: string): void {
    this.outcome(Kind['acquire-failed'], lock, reason);
    this.observer.failed(lock, reason, this.now);
  }

  released(lock: SimLock): void {
    this.outcome(Kind.released, lock, '');
    this.observer.released(lock, this.now);
  }

  called(code: number, lock: SimLock): void {
    this.cause = this.noteLock(code, lock, lock.plan.ttlMs);
    if (!this.trace.keeping) return;
    const { ttlMs, holdUs } = lock.plan;
    this.trace.detail({
      ...this.lockDetail(lock),
      ttlMs,
      ...(code === Kind.call && holdUs !== null ? { holdUs } : {}),
    });
  }

  /** A client looks at its lock and goes on to write. Not in the hash: its fate is. */
  checked(lock: SimLock, leftUs: number): void {
    this.cause = this.trace.pass();
    if (!this.trace.keeping) return;
    this.keep(Kind['write-checked'], lock.client);
    this.trace.detail({ ...this.lockDetail(lock), leftUs });
  }

  /** A write arrives at the resource, which takes it or refuses it. */
  written(lock: SimLock, index: number, accepted: boolean): void {
    this.called(accepted ? Kind['write-arrived'] : Kind['write-refused'], lock);
    if (this.trace.keeping)
      this.trace.detail({ ...this.lockDetail(lock), index, stale: lock.believes(this.now) ? 0 : 1 });
    this.observer.written(lock, index, accepted, this.now);
  }

  /** Belief is over; noted by the caller where the trace has an event for it. */
  ended(lock: SimLock, cause: HoldEndCause): void {
    if (!lock.believing) return;
    lock.believing = false;
    this.observer.ended(lock, cause, this.now);
  }

  expired(lock: SimLock): void {
    this.outcome(Kind.expired, lock, '');
    this.ended(lock, 'expired');
  }

  private noteLock(code: number, lock: SimLock, b: number): number {
    return this.note(code, lock.client, lock.number, b);
  }

  // ——— what nodes do ———

  keySet(node: Process, key: number, token: number, goneAt: LocalTime): void {
    this.noteKey(Kind['key-set'], node, key, token, 'set', goneAt);
    this.observer.keySet(node.index, key, token, this.now);
  }

  keyLengthened(node: Process, key: number, token: number, goneAt: LocalTime): void {
    this.noteKey(Kind['key-lengthened'], node, key, token, 'lengthened', goneAt);
  }

  keyGone(node: Process, key: number, token: number, cause: KeyRemovalCause, by: number): void {
    this.noteKey(Kind['key-gone'], node, key, token, cause, null);
    this.observer.keyGone(node.index, key, token, cause, by, this.now);
  }

  /** A node's fencing counter is another one now; -1 for none. */
  counterSet(node: Process, counter: number): void {
    this.note(Kind['counter-set'], node, counter, 0);
    if (this.trace.keeping) this.trace.detail({ counter });
    this.observer.counterSet(node.index, counter, this.now);
  }

  private noteKey(
    code: number,
    node: Process,
    key: number,
    token: number,
    how: string,
    goneAt: LocalTime | null,
  ): void {
    this.note(code, node, key, token);
    if (!this.trace.keeping) return;
    const owner = this.ownerOf(token)?.client.name ?? '?';
    const goneUs = goneAt === null ? this.now : node.clock.when(goneAt, this.now);
    this.trace.detail({ resource: this.resourceOf(key), token, owner, how, goneUs });
  }
}
