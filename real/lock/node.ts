import type { Command, LocalTime } from '../../core/index.js';
import { withoutArguments } from '../../text/secrets.js';
import type { Clock } from './clock.js';
import { type AnyClient, NodeConnection } from './connection.js';
import type { Receiver, Voter } from './driver.js';
import type { FirstLook } from './first-look.js';
import {
  isErrorReply,
  isMissingScript,
  look,
  NO_VOTE,
  type Reply,
  type Request,
  replyOf,
  type Seen,
  write,
} from './request.js';
import { SentExtensions } from './sent-extensions.js';
import { corkForThisTurn } from './socket.js';

/** Who a node belongs to. */
export interface NodeOwner {
  onNodeError(error: Error, node: LockNode): void;
  /** Why a node that was just connected may not vote; `null` if it may. */
  objectionTo(node: LockNode, look: FirstLook): string | null;
}

const FIRST_RECONNECT_MS = 20;
const LONGEST_RECONNECT_MS = 1000;
/** A node that owes answers and gave none for so long gets no new locks until it answers again, µs. */
const SILENT_US = 1_000_000;
/** How long a second connection may take before another one is tried, ms. */
const PROBE_MS = 2000;
/** How long a node is waited for in all when it is closed, however steadily it answers, ms. */
const LONGEST_CLOSE_MS = 10_000;
/** Releases kept for a node that is away; the keys of older ones go when their TTL ends. */
const MOST_OWED = 1000;

/**
 * One Redis node, through a connection of its own.
 *
 * A peer that vanished without a word leaves a connection that takes bytes and answers nothing, for a quarter of an
 * hour; so does a stopped process. A node that owes answers for a second is therefore given no new locks, and a second
 * connection is tried: if that gets through, the first one was dead and is dropped.
 */
export class LockNode implements Voter {
  readonly index: number;
  readonly #client: AnyClient;
  readonly #clock: Clock;
  readonly #owner: NodeOwner;
  #link: NodeConnection;
  /** The servers that its connection leads to. */
  #servers: readonly string[] = [];
  /** What went wrong last while it is away: the cause to tell. */
  #trouble: Error | null = null;
  /** A second connection, while the first is silent. */
  #probe: NodeConnection | null = null;
  #probeTimer: NodeJS.Timeout | undefined;
  #closed = false;
  /** Settled by the first success or failure to connect. */
  #connecting = true;
  #whenConnected: (() => void)[] = [];
  /** Who closes it waits for what it is owed, and then for its answers. */
  #whenBack: () => void = () => {};
  #whenAnswered: () => void = () => {};
  #reconnectMs = FIRST_RECONNECT_MS;
  #reconnectTimer: NodeJS.Timeout | undefined;
  #unanswered = 0;
  /** Answers so far, of which only the change counts. */
  #answers = 0;
  /** Releases that it was sent and has not answered. */
  #releasing = 0;
  /** When it last answered, or was first asked after that, µs. */
  #silentSince = 0;
  #silent = false;
  #checking = false;
  /** Extensions without a script that are not answered. */
  readonly #extensions = new SentExtensions();
  /** Releases that did not reach it. */
  readonly #owed = new Set<Request>();

  /** Does not connect yet: see {@link LockNode.open}. */
  constructor(index: number, client: AnyClient, clock: Clock, owner: NodeOwner) {
    this.index = index;
    this.#client = client;
    this.#clock = clock;
    this.#owner = owner;
    this.#link = new NodeConnection(client, this);
  }

  open(): void {
    this.#link.open();
  }

  get ready(): boolean {
    return this.#link.ready;
  }

  /** Whether it leads to one of `servers`. */
  leadsTo(servers: readonly string[]): boolean {
    return this.ready && this.#servers.some((server) => servers.includes(server));
  }

  /** Whether the very first connection is still being made. */
  get connecting(): boolean {
    return this.#connecting;
  }

  /** Calls back once the first connection is made or has failed. */
  whenConnected(callback: () => void): void {
    if (this.#connecting) this.#whenConnected.push(callback);
    else callback();
  }

  /**
   * Sends a command, or answers `error` at once, in a microtask, when the node is away. Returns whether it was sent. A
   * release that does not get through is sent again when the node is back.
   */
  perform(request: Request, receiver: Receiver, now: LocalTime): boolean {
    const { command } = request;
    const isRelease = command.operation === 'release';
    if (!this.#link.ready || (!isRelease && this.#isSilent(now))) {
      if (isRelease) this.#owe(request);
      this.decline(command, receiver, this.#trouble);
      return false;
    }
    const link = this.#link;
    const compared = this.#extensions.size < MOST_OWED ? link.comparing(request) : null;
    if (this.#extensions.size > 0 && !this.#extensions.mayFollow(command, link.session)) {
      this.decline(command, receiver);
      return false;
    }
    const isNoted = compared !== null && command.operation === 'extend';
    const extension = isNoted ? this.#extensions.note(command, link.session) : null;
    this.#onSend(now);
    if (isRelease) this.#releasing++;
    link.send(compared ?? request.words).then(
      (reply) => {
        if (extension !== null) this.#extensions.settle(command, extension);
        this.#answer(command, replyOf(command, reply), receiver);
      },
      (error) => {
        const isRefused = compared !== null && isErrorReply(error);
        if (isRefused && extension !== null) this.#extensions.settle(command, extension);
        if (isRefused) link.stopComparing();
        if (isRefused || isMissingScript(error)) this.#retryWithText(link, request, receiver);
        else this.#fail(link, request, error, receiver);
      },
    );
    return true;
  }

  /** Answers `error` in a microtask. */
  decline(command: Command, receiver: Receiver, why: Error | null = null): void {
    queueMicrotask(() => receiver.onReply(this.index, command, NO_VOTE, why, this.#clock.now()));
  }

  /** What is under `key`; rejects if the node is away or answers with an error. */
  async look(key: string): Promise<Seen> {
    const now = this.#clock.now();
    if (!this.#link.ready || this.#isSilent(now)) throw new Error(`n${this.index} is not connected.`);
    this.#onSend(now);
    try {
      return await look(this.#link.connection, key);
    } finally {
      this.#onAnswer();
    }
  }

  /** The text under a key; rejects if the node is away. */
  async stored(key: string): Promise<unknown> {
    return this.#link.connection.get(key);
  }

  /** Runs a script that is no command of a lock; rejects if the node is away. */
  async evaluate(lua: string, keys: readonly string[], values: readonly number[]): Promise<unknown> {
    return this.#link.connection.eval(lua, keys.length, ...keys, ...values);
  }

  /**
   * Closes the connection once it has answered what it was sent and what it is owed, or gives nothing more for `withinMs`.
   * What it has not confirmed to have released is told as an error.
   */
  async close(withinMs: number): Promise<void> {
    if (!this.#link.ready && this.#owed.size > 0) await this.#waitForLink(withinMs);
    this.#closed = true;
    clearTimeout(this.#reconnectTimer);
    this.#endProbe();
    this.#endFirstConnect();
    if (this.#link.ready) await this.#quitLink(withinMs);
    const unconfirmed = this.#owed.size + this.#releasing;
    this.#owed.clear();
    this.#link.drop();
    if (unconfirmed === 0) return;
    const releases = unconfirmed === 1 ? '1 release that it has' : `${unconfirmed} releases that it has`;
    this.#owner.onNodeError(new Error(`n${this.index} was closed with ${releases} not confirmed.`), this);
  }

  #waitForLink(withinMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, withinMs);
      this.#whenBack = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #quitLink(withinMs: number): Promise<void> {
    const until = this.#clock.now() + LONGEST_CLOSE_MS * 1000;
    return new Promise((resolve) => {
      let answers = this.#answers;
      const timer = setInterval(() => setImmediate(lookAgain), withinMs);
      const done = () => {
        clearInterval(timer);
        resolve();
      };
      const lookAgain = () => {
        if (answers === this.#answers || this.#clock.now() > until) done();
        answers = this.#answers;
      };
      const quit = () => {
        if (this.#unanswered === 0) this.#link.connection.quit().then(done, done);
      };
      // An answer may have its lock send a release, which comes first.
      this.#whenAnswered = () => queueMicrotask(quit);
      quit();
    });
  }

  onLinkReady(link: NodeConnection, look: FirstLook): boolean {
    if (this.#closed) return false;
    const objection = this.#owner.objectionTo(this, look);
    if (objection !== null) {
      this.onLinkError(new Error(objection));
      return false;
    }
    this.#servers = look.servers;
    this.#trouble = null;
    if (link === this.#probe) this.#replaceLink(link);
    this.#reconnectMs = FIRST_RECONNECT_MS;
    this.#endFirstConnect();
    this.#payOwed();
    this.#whenBack();
    return true;
  }

  onLinkEnd(link: NodeConnection): void {
    // A second connection that failed is tried again by its timer.
    if (link !== this.#link) return;
    this.#endFirstConnect();
    if (this.#closed) return;
    clearTimeout(this.#reconnectTimer);
    this.#reconnectTimer = setTimeout(() => this.#link.open(), this.#reconnectMs).unref();
    this.#reconnectMs = Math.min(LONGEST_RECONNECT_MS, this.#reconnectMs * 2);
  }

  onLinkError(error: Error): void {
    this.#trouble = error;
    this.#owner.onNodeError(error, this);
  }

  #onSend(now: LocalTime): void {
    if (this.#unanswered++ === 0) this.#silentSince = now;
    // As Nagle would have it: a lone command goes out at once, and while answers are owed, commands gather for a turn.
    else corkForThisTurn(this.#link.connection);
  }

  #answer(command: Command, reply: Reply, receiver: Receiver): void {
    if (command.operation === 'release') this.#releasing--;
    receiver.onReply(this.index, command, reply, null, this.#onAnswer());
  }

  #fail(link: NodeConnection, request: Request, error: unknown, receiver: Receiver): void {
    const { command } = request;
    const now = this.#onAnswer();
    if (command.operation === 'release') this.#releasing--;
    const reason = error instanceof Error ? withoutArguments(error) : null;
    if (command.operation === 'release' && !isErrorReply(error)) {
      this.#owe(request);
      // The connection has been replaced already. On the same one it would fail again.
      if (link !== this.#link && this.#link.ready) this.#payOwed();
    }
    if (reason !== null && this.#link.ready) this.#owner.onNodeError(reason, this);
    receiver.onReply(this.index, command, NO_VOTE, reason, now);
  }

  #onAnswer(): LocalTime {
    const now = this.#clock.now();
    this.#unanswered--;
    this.#answers++;
    this.#silentSince = now;
    if (this.#unanswered === 0) this.#whenAnswered();
    if (this.#silent) {
      this.#silent = false;
      this.#endProbe();
    }
    return now;
  }

  #retryWithText(link: NodeConnection, request: Request, receiver: Receiver): void {
    const { command } = request;
    write(link.connection, request.inFull).then(
      (reply) => this.#answer(command, replyOf(command, reply), receiver),
      (error) => this.#fail(link, request, error, receiver),
    );
  }

  #owe(release: Request): void {
    this.#owed.add(release);
    if (this.#owed.size <= MOST_OWED) return;
    const [oldest] = this.#owed;
    if (oldest !== undefined) this.#owed.delete(oldest);
  }

  #payOwed(): void {
    const owed = [...this.#owed];
    this.#owed.clear();
    for (const release of owed) this.perform(release, NOBODY, this.#clock.now());
  }

  #isSilent(now: LocalTime): boolean {
    if (this.#silent) return true;
    const suspicious = this.#unanswered > 0 && now - this.#silentSince > SILENT_US;
    if (suspicious && !this.#checking) {
      this.#checking = true;
      // After a blocked event loop the answers have long arrived and are only not read yet: they come first.
      setImmediate(() => this.#check());
    }
    return false;
  }

  #check(): void {
    this.#checking = false;
    const silent = this.#unanswered > 0 && this.#clock.now() - this.#silentSince > SILENT_US;
    if (!silent || this.#silent || this.#closed || !this.#link.ready) return;
    this.#silent = true;
    this.#openProbe();
  }

  #openProbe(): void {
    this.#probe = new NodeConnection(this.#client, this);
    this.#probe.open();
    this.#probeTimer = setTimeout(() => {
      this.#endProbe();
      if (this.#silent) this.#openProbe();
    }, PROBE_MS).unref();
  }

  #endProbe(): void {
    clearTimeout(this.#probeTimer);
    const probe = this.#probe;
    this.#probe = null;
    probe?.drop();
  }

  /** The node answers on a second connection: the first is dead. What it has not answered fails, or is owed. */
  #replaceLink(link: NodeConnection): void {
    clearTimeout(this.#probeTimer);
    this.#probe = null;
    const dead = this.#link;
    this.#link = link;
    this.#silent = false;
    dead.drop();
  }

  #endFirstConnect(): void {
    if (!this.#connecting) return;
    this.#connecting = false;
    const waiting = this.#whenConnected;
    this.#whenConnected = [];
    for (const callback of waiting) callback();
  }
}

/** For what nobody waits for. */
const NOBODY: Receiver = { onReply: () => {} };
