import type { Answer, Command } from '../core/index.js';
import type { LocalClock } from './clock.js';
import { corkForThisTurn, streamOf, unrefStream } from './socket.js';
import {
  isMissingScript,
  loadScripts,
  type RedisConnection,
  type Reply,
  replyOf,
  write,
  writeWithText,
} from './wire.js';

/** The options of an own connection, which overrule those of the client it is made from. */
export interface ConnectionOptions {
  readonly lazyConnect: true;
  readonly enableOfflineQueue: false;
  readonly autoResendUnfulfilledCommands: false;
  readonly maxRetriesPerRequest: 0;
  readonly retryStrategy: () => null;
  readonly reconnectOnError: null;
  readonly commandTimeout: undefined;
  readonly socketTimeout: undefined;
  readonly enableAutoPipelining: false;
  readonly enableReadyCheck: true;
  readonly readOnly: false;
  readonly monitor: false;
  readonly stringNumbers: false;
  readonly autoResubscribe: false;
  readonly disconnectTimeout: 1;
}

/**
 * Nothing is queued for a node that is away and nothing is sent twice: a SET that arrives after its lock was given up
 * would be a key that nobody releases. Time-outs are the lock's own.
 */
const CONNECTION: ConnectionOptions = {
  lazyConnect: true,
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  // Reconnecting is done here, with timers that do not keep the process alive.
  retryStrategy: () => null,
  reconnectOnError: null,
  commandTimeout: undefined,
  socketTimeout: undefined,
  enableAutoPipelining: false,
  enableReadyCheck: true,
  readOnly: false,
  monitor: false,
  stringNumbers: false,
  autoResubscribe: false,
  // How long ioredis keeps the process alive after `disconnect`, even if the socket is long gone.
  disconnectTimeout: 1,
};

/** An ioredis client, of which locks make connections of their own and which they leave alone otherwise. */
export interface RedlockClient {
  duplicate(options: ConnectionOptions): RedisConnection;
  readonly options?: object;
  readonly isCluster?: boolean;
}

/**
 * Who is told what a node answered. `error` is given where the answer is `error` and somebody said why, `counter` where
 * the command was about the fencing counter.
 */
export interface Receiver {
  onReply(node: number, command: Command, answer: Answer, error: Error | null, counter: number): void;
}

const NO_REPLY: Reply = { answer: 'error', counter: 0 };

const FIRST_RECONNECT_MS = 20;
const LONGEST_RECONNECT_MS = 1000;
/** Beyond this many unanswered commands a node is watched for whether it answers at all. */
const SUSPICIOUS_BACKLOG = 256;
/** A watched node that answered nothing for so long gets no new locks until it answers again, µs. */
const HUNG_AFTER_US = 1_000_000;

/** One Redis node, through a connection of its own. */
export class LockNode {
  readonly index: number;
  readonly address: string;
  readonly #connection: RedisConnection;
  readonly #clock: LocalClock;
  readonly #onError: (error: Error, node: LockNode) => void;
  #ready = false;
  #closed = false;
  /** Settled by the first success or failure to connect. */
  #connecting = true;
  #whenConnected: (() => void)[] = [];
  #reconnectMs = FIRST_RECONNECT_MS;
  #reconnectTimer: NodeJS.Timeout | undefined;
  #unanswered = 0;
  /** Replies so far, and what they and the clock were when the backlog was last seen to move. */
  #replies = 0;
  #repliesSeen = 0;
  #movedAtUs = 0;

  constructor(
    index: number,
    address: string,
    client: RedlockClient,
    clock: LocalClock,
    onError: (error: Error, node: LockNode) => void,
  ) {
    this.index = index;
    this.address = address;
    this.#clock = clock;
    this.#onError = onError;
    this.#connection = client.duplicate(CONNECTION);
    this.#connection.on('error', (error: Error) => this.#onError(error, this));
    // Lets the process end: whoever waits for an answer holds it with a timer.
    this.#connection.on('connect', () => unrefStream(this.#connection));
    this.#connection.on('ready', () => this.#onReady());
    this.#connection.on('close', () => {
      this.#ready = false;
    });
    this.#connection.on('end', () => this.#onEnd());
    this.#connect();
  }

  get ready(): boolean {
    return this.#ready;
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
   * Sends a command, or answers `error` at once, in a microtask, when the node is away. Returns whether it was sent.
   */
  perform(command: Command, keys: readonly string[], receiver: Receiver): boolean {
    if (!this.#ready || (command.operation !== 'release' && this.#isHung())) {
      this.decline(command, receiver);
      return false;
    }
    this.#unanswered++;
    corkForThisTurn(this.#connection);
    write(this.#connection, command, keys).then(
      (reply) => this.#answer(command, replyOf(command, reply), null, receiver),
      (error) => {
        if (isMissingScript(error)) this.#retryWithText(command, keys, receiver);
        else this.#answer(command, NO_REPLY, error, receiver);
      },
    );
    return true;
  }

  /** Answers `error` in a microtask. */
  decline(command: Command, receiver: Receiver): void {
    queueMicrotask(() => receiver.onReply(this.index, command, 'error', null, 0));
  }

  /** Closes the connection once earlier commands are answered, at the latest after `withinMs`. */
  async close(withinMs: number): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#reconnectTimer);
    this.#endFirstConnect();
    if (this.#ready) {
      let timer: NodeJS.Timeout | undefined;
      const bound = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, withinMs);
      });
      await Promise.race([this.#connection.quit().catch(() => undefined), bound]);
      clearTimeout(timer);
    }
    this.#ready = false;
    this.#connection.disconnect();
    streamOf(this.#connection)?.destroy();
  }

  #answer(command: Command, { answer, counter }: Reply, error: unknown, receiver: Receiver): void {
    this.#unanswered--;
    this.#replies++;
    const reason = error instanceof Error ? error : null;
    if (reason !== null && this.#ready) this.#onError(reason, this);
    receiver.onReply(this.index, command, answer, reason, counter);
  }

  #retryWithText(command: Command, keys: readonly string[], receiver: Receiver): void {
    writeWithText(this.#connection, command, keys).then(
      (reply) => this.#answer(command, replyOf(command, reply), null, receiver),
      (error) => this.#answer(command, NO_REPLY, error, receiver),
    );
  }

  /** A stopped process accepts bytes for ever; without this, every lock would leave its commands in that queue. */
  #isHung(): boolean {
    if (this.#unanswered < SUSPICIOUS_BACKLOG) return false;
    const now = this.#clock.now();
    if (this.#repliesSeen !== this.#replies || this.#movedAtUs === 0) {
      this.#repliesSeen = this.#replies;
      this.#movedAtUs = now;
      return false;
    }
    return now - this.#movedAtUs > HUNG_AFTER_US;
  }

  #connect(): void {
    // What went wrong arrives as an event too.
    this.#connection.connect().catch(() => undefined);
  }

  #onReady(): void {
    if (this.#closed) return;
    this.#ready = true;
    this.#reconnectMs = FIRST_RECONNECT_MS;
    this.#movedAtUs = 0;
    void loadScripts(this.#connection);
    this.#endFirstConnect();
  }

  #onEnd(): void {
    this.#ready = false;
    this.#endFirstConnect();
    if (this.#closed) return;
    clearTimeout(this.#reconnectTimer);
    this.#reconnectTimer = setTimeout(() => this.#connect(), this.#reconnectMs).unref();
    this.#reconnectMs = Math.min(LONGEST_RECONNECT_MS, this.#reconnectMs * 2);
  }

  #endFirstConnect(): void {
    if (!this.#connecting) return;
    this.#connecting = false;
    const waiting = this.#whenConnected;
    this.#whenConnected = [];
    for (const callback of waiting) callback();
  }
}
