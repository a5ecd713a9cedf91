import {
  type Answer,
  type Command,
  type DraftState,
  localTime,
  NO_NODES,
  type NodeSet,
  oneNode,
  size,
  type Tally,
  type Token,
  union,
  without,
} from '../core/index.js';
import {
  ClientProcess,
  type ClientSlot,
  type Clock,
  type Message,
  nodeName,
  type QueueEvent,
  type SimLock,
  type TrueTime,
} from '../sim/index.js';
import { type Addressed, type LibraryCommand, libraryCommand } from './addressed.js';
import { askerOf } from './asker.js';
import { isGreetingSaid } from './frames.js';
import { needsConnection, unreachable } from './net/addresses.js';
import type { Connection } from './net/connection.js';
import type { ProcessNetwork } from './net/process-network.js';
import { isGreeting, Segment } from './net/segment.js';
import { ProcessScripts } from './process-scripts.js';
import { LibraryTimer, ProcessTimers } from './process-timers.js';
import { RandomPurpose } from './random-words.js';
import type { Sent, Wire } from './redis/client.js';
import { type Meaning, meaningOf } from './redis/meaning.js';
import { RemoteCommands } from './redis/remote.js';
import { saidBy } from './redis/said.js';
import { as, current, type OwnedTimer } from './runtime/owner.js';
import { withoutStack } from './runtime/without-stack.js';
import type { LibraryProcess, Session } from './session.js';

/** What `Date.now()` shows when a wall clock shows nothing, ms: 2033-05-18, which no native clock shows today. */
export const EPOCH_MS = 2_000_000_000_000;

/** A lock that reads a clock more often than this in one instant waits for it. */
const MOST_READINGS = 100_000;

/** Timers of at most this, µs, are no pause: Node makes it of a delay of 0. */
const NO_PAUSE_US = 1_000;

/** What goes out over a connection at once. */
type Commands = readonly (readonly string[])[];

const NO_VOTES: Tally = { yes: NO_NODES, no: NO_NODES, failed: NO_NODES };

/** A client process in which library code runs: with clocks, timers, randomness and connections of its own. */
export abstract class LibraryHost extends ClientProcess implements LibraryProcess {
  readonly session: Session;
  protected readonly timers: ProcessTimers;
  /** The lock that was asked for last: what is sent belongs to it, unless its token says otherwise. */
  task: SimLock | null = null;
  /** The lock that is just being asked for: its call has not returned. */
  asking: SimLock | null = null;
  protected randomCalls = 0;
  /** How often it has waited for a timer, or was asked for something. */
  protected pauses = 0;
  private readonly scripts: ProcessScripts;
  private asked: NodeSet = NO_NODES;
  /** The instant that its clocks show to whom it is being asked in {@link look}; `null` for now. */
  private shown: TrueTime | null = null;
  /** How often its clocks were read. */
  private readings = 0;
  /** The same when library code was last entered. */
  private readBefore = 0;

  constructor(seat: ClientSlot, session: Session) {
    super(seat, 'wall');
    this.session = session;
    this.scripts = new ProcessScripts(session, () => this.task?.state.phase === 'acquiring');
    this.timers = new ProcessTimers((timer, at) => this.host.pushTimer(this, timer, 0, at, this.clocks.monotonic));
  }

  abstract settle(): void;

  protected override get timerClock(): Clock {
    return this.clocks.monotonic;
  }

  // ——— what the dispatchers ask ———

  /** Each process is alone in a container: all of them have this number, and so has what comes in the place of one that died. */
  get pid(): number {
    return 1;
  }

  wallMs(): number {
    return EPOCH_MS + Math.floor(this.clocks.wall.read(this.instantRead()) / 1000);
  }

  monotonicUs(): number {
    return this.clocks.monotonic.read(this.instantRead());
  }

  bootUs(): number {
    return this.clocks.boot.read(this.instantRead());
  }

  private instantRead(): TrueTime {
    if (++this.readings - this.readBefore > MOST_READINGS)
      throw this.refuses(
        'reads its clock again and again until it shows more: time goes on only when it waits for a timer',
      );
    return this.shown ?? this.context.now;
  }

  setTimer(callback: () => void, delayMs: number, repeat: boolean): OwnedTimer {
    this.session.tap?.timer?.(this, delayMs);
    return this.timers.set(callback, localTime(this.monotonicUs()), delayMs * 1000, repeat);
  }

  timerOf(id: number): OwnedTimer | undefined {
    return this.timers.of(id);
  }

  setImmediate(callback: () => void): OwnedTimer {
    return this.timers.setImmediate(this.session.origins?.keep(callback) ?? callback);
  }

  /** From the schedule's jitter, so that a replay draws the same, and apart in the last digits for tokens made of it. */
  random(): number {
    const lock = this.task;
    const ppm = lock === null ? 500_000 : this.host.jitterPpm(lock, this.randomCalls++);
    const word = this.session.randomWords.next(this.index, this.life, RandomPurpose.numbers);
    return (ppm + (word >>> 0) / 2 ** 32) / 1_000_000;
  }

  randomWord(): number {
    return this.session.randomWords.next(this.index, this.life, RandomPurpose.bytes);
  }

  // ——— library code, and what is looked at after it ———

  refuses(what: string): Error {
    return this.session.refuse(`${this.name} ${what}`);
  }

  /** Lets library code run as a part of this event; what follows from it is drained with this process as its owner. */
  protected enter(work: () => void): void {
    this.readBefore = this.readings;
    current.owner = this;
    this.session.active = this;
    try {
      work();
    } catch (error) {
      this.session.uncaught(this, error);
    }
  }

  /**
   * Asks library code something that nothing follows from; it reads the clocks of this process. Errors get no stack.
   *
   * @param at - What they show: as if nothing happened until then. Default now.
   */
  protected look<T>(read: () => T, at: TrueTime | null = null): T {
    this.readBefore = this.readings;
    this.shown = at;
    try {
      return withoutStack(() => as(this, read));
    } finally {
      this.shown = null;
    }
  }

  /** Whether library code reads a clock of this process as it answers. */
  protected readsClocks(read: () => unknown): boolean {
    const before = this.readings;
    this.look(read);
    return this.readings > before;
  }

  get hasImmediates(): boolean {
    return this.timers.hasImmediates;
  }

  runImmediates(): void {
    this.enter(() => this.timers.runImmediates());
  }

  /** The state of a lock, which its client alone writes to. */
  protected stateOf(lock: SimLock): DraftState {
    return lock.state as DraftState;
  }

  // ——— what the world does ———

  override wake(subject: object, event: QueueEvent): boolean {
    if (!(subject instanceof LibraryTimer)) return super.wake(subject, event);
    if (subject.event !== event) return false;
    if (subject.delayUs > NO_PAUSE_US) this.pauses++;
    this.enter(() => this.timers.fire(subject, this.clocks.monotonic.read(this.context.now)));
    return true;
  }

  override die(): void {
    super.die();
    this.timers.clear();
    this.networkMade?.die();
    this.session.closes(this);
  }

  override suspendClocks(at: TrueTime, until: TrueTime, stops: 'monotonic' | 'all'): void {
    super.suspendClocks(at, until, stops);
    this.clockChanged(at);
  }

  override clockChanged(now: TrueTime): void {
    super.clockChanged(now);
    this.timers.rearm();
  }

  // ——— the network ———

  /** The way from this process to a node. */
  wireTo(place: number, node: number): Wire {
    return {
      name: nodeName(node),
      isUp: () => !(this.session.nodes[node]?.down ?? false),
      send: (commands) => this.send(place, node, commands),
      later: (callback, delayMs) => this.setTimer(callback, delayMs, false),
      unsupported: (method) => this.session.unsupported(needsConnection(method)),
    };
  }

  private send(place: number, node: number, commands: Commands): Sent {
    const addressed = this.addressed(place, node, commands);
    if (addressed === null)
      return { replies: Promise.reject(new Error('no lock was asked for yet')), abandon: () => {} };
    const { lock, command, said, at } = addressed;
    this.noteFrame(node, said);
    const { session, context } = this;
    const remote = new RemoteCommands(commands, addressed, {
      server: session.serverOf(at),
      names: session.names,
      context,
    });
    this.host.send(lock, oneNode(place), command, remote);
    return remote;
  }

  /** Keeps the line that sends this, where a trace is kept. */
  private noteFrame(node: number, said: string): void {
    const { name: client, context, session } = this;
    const { frames, origins } = session;
    if (origins === null) return;
    const where = isGreetingSaid(said) ? null : origins.lineNow();
    frames.push({ client, node: nodeName(node), said, sentUs: context.now, where });
  }

  /** Sends commands over a connection that library code has opened itself. */
  transmit(connection: Connection, node: number, commands: Commands): void {
    const { tap, origins } = this.session;
    let isKept = false;
    const send = (): void => this.transmitNow(connection, node, commands, isKept);
    isKept = tap?.keeps(this, connection, commands, origins?.keep(send) ?? send) ?? false;
    if (!isKept) send();
  }

  private transmitNow(connection: Connection, node: number, commands: Commands, wasKept: boolean): void {
    const place = this.task?.list.nodes.indexOf(node) ?? -1;
    const addressed = place < 0 ? null : this.addressed(place, node, commands);
    if (addressed === null) return;
    const { lock, command, said } = addressed;
    if (wasKept && command.operation === 'release') this.session.judge.releaseWaited(lock);
    this.noteFrame(node, said);
    const { session, context } = this;
    const segment = new Segment(connection, commands, addressed, { names: session.names, context });
    this.host.send(lock, oneNode(place), command, segment);
  }

  /** An attempt or a release is over. What a library keeps for nodes that it has no connection to counts as sent, but no answer is owed. */
  protected noteKept(lock: SimLock, token: number = lock.token): void {
    const kept = this.networkMade?.unconnected ?? NO_NODES;
    if (token !== 0) this.session.judge.keepsRelease(token, kept, this.context.now);
  }

  /** What commands are about, for observers of messages: their lock above all. `null` before there is any. */
  private addressed(place: number, node: number, commands: Commands): Addressed | null {
    const { session } = this;
    session.learn(commands);
    session.sends(this);
    const greets = commands.every(isGreeting);
    if (!greets) this.asked = union(this.asked, oneNode(node));
    session.seen.nodesAsked = Math.max(session.seen.nodesAsked, size(this.asked));
    const words = commands.find((it) => it.length > 1) ?? [];
    const read = meaningOf(words, this.scripts);
    const isAside = session.tap?.isAside?.(words, read, this) === true;
    const meaning = isAside ? meaningOf(['get', ...read.keys.slice(0, 1)], this.scripts) : read;
    this.scripts.sends(words, meaning);
    const owner = this.ownerOf(meaning);
    const lock = owner?.client === this ? owner : askerOf(meaning, this, session);
    session.tap?.sent({ process: this, lock, node, commands, meaning });
    const at = session.nodes[node];
    if (lock === null || at === undefined) return null;
    const token = session.names.tokenIn(meaning, lock);
    if (meaning.operation === 'acquire' && owner !== null && owner.client !== this) session.sharesToken(lock, owner);
    this.noteAcquisition(lock, meaning.operation, token, meaning.keys);
    this.asks(lock, place, meaning.operation);
    const command = libraryCommand(meaning, token, this.context.now);
    const said = session.origins === null ? '' : saidBy(commands, meaning);
    return { lock, command, said, at, isInverted: meaning.isInverted ?? false, isGreeting: greets };
  }

  /** Whose lock the value of a command belongs to. Of one that a process uses again and again, it is the latest lock. */
  private ownerOf({ value, operation }: Meaning): SimLock | null {
    const { names, tap } = this.session;
    if (this.task !== null && names.isMadeFor(this.task, value)) return this.task;
    const owner = value === null ? null : this.context.ownerOf(names.known(value) ?? 0);
    const isEarlier = operation === 'acquire' && owner?.client === this && owner !== this.task;
    const isUsedAgain = isEarlier && tap !== null && !tap.valuesDiffer;
    if (!isUsedAgain || this.task?.state.phase !== 'acquiring' || value === null) return owner;
    names.renew(value, this.task);
    return this.task;
  }

  private networkMade: ProcessNetwork | null = null;

  /** What the sockets of library code are connected by. */
  get network(): ProcessNetwork {
    this.networkMade ??= this.session.networkFor({
      index: this.index,
      lifeNow: () => this.life,
      nowUs: () => this.context.now,
      enter: (work) => this.enter(work),
      sendControl: (control, afterUs) => this.host.sendControl(control, afterUs),
      tell: (message, told) => this.host.tell(message, told),
      transmit: (connection, node, commands) => this.transmit(connection, node, commands),
      siteOf: (node) => ({ node, now: this.context.now, names: this.session.names, by: 0 }),
      log: (node, text, trouble) => this.session.logBytes(this, node, text, trouble),
      unreachable: (where) => this.session.refuse(unreachable(where)),
      refuses: (what) => this.refuses(what),
    });
    return this.networkMade;
  }

  private noteAcquisition(
    lock: SimLock,
    operation: Command['operation'],
    token: number,
    keys: readonly string[],
  ): void {
    // Beside those that it is sent to now: a client may drop what it has kept for too long.
    if (operation === 'release') this.noteKept(lock, token);
    if (operation === 'release' && this.isAttempt(lock, token)) Object.assign(this.stateOf(lock).votes, NO_VOTES);
    if (operation !== 'acquire' || (lock.token === token && lock.keys.length > 0)) return;
    if (lock.state.phase !== 'acquiring') return;
    this.noteKept(lock);
    this.session.judge.tokenOver(lock.token, this.context.now);
    lock.token = token;
    lock.keys = keys.map((key) => this.context.keyOf(key));
    this.session.learnKey(keys[0], lock);
    const state = this.stateOf(lock);
    state.attempt.token = token as unknown as Token;
    Object.assign(state.votes, NO_VOTES);
  }

  /** A node is asked to do something about a lock. */
  protected abstract asks(lock: SimLock, place: number, what: Command['operation']): void;

  /** A client hears the answer of a node to a command for its lock. */
  protected abstract answered(lock: SimLock, place: number, answer: Answer): void;

  /** A client hears that a node has extended its lock, in time. */
  protected abstract extensionGranted(lock: SimLock, place: number): void;

  private isAttempt(lock: SimLock, token: number): boolean {
    return lock.token === token && lock.state.phase === 'acquiring';
  }

  override receive(message: Message, answer: Answer, counter: number): void {
    const { remote, command, place, node } = message;
    const lock = this.locks[message.lock];
    if (!(remote instanceof RemoteCommands || remote instanceof Segment) || lock === undefined) return;
    // What a server says by itself answers nothing, nor does what nobody reads.
    const isAnswer = remote instanceof RemoteCommands || (counter === remote.told && remote.connection.isReadable);
    const isVote = isAnswer && command.operation === 'acquire' && answer !== 'error';
    if (isVote && this.isAttempt(lock, command.token as unknown as number)) {
      const it = oneNode(place);
      const { votes } = this.stateOf(lock);
      votes.yes = answer === 'yes' ? union(votes.yes, it) : without(votes.yes, it);
      votes.no = answer === 'no' ? union(votes.no, it) : without(votes.no, it);
    }
    const isAwaited = remote instanceof Segment ? isAnswer : remote.isAwaited;
    if (isAwaited) this.session.judge.heard(command as LibraryCommand, { node, answer }, this.context.now);
    if (isAnswer) this.answered(lock, place, answer);
    if (isAnswer) this.session.tap?.answered({ process: this, lock, node }, command.operation, answer);
    if (command.operation === 'extend' && answer === 'yes' && isAwaited) this.extensionGranted(lock, place);
    this.enter(() => remote.arrive(counter));
  }
}
