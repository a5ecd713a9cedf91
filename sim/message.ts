import type { Answer, Command } from '../core/index.js';
import type { SimLock } from './sim-lock.js';

/**
 * A connection between a client and a node, as TCP makes one: nothing that is sent over it overtakes, comes twice or
 * stays away. What the network loses is sent again, later and later.
 */
export interface Connection {
  /** When what was sent last arrives, µs of true time: to the node, and to the client. */
  readonly arrivals: Record<Direction, number>;
  /** The node knows nothing of it. */
  readonly isBroken: boolean;
  /** A command that was sent over it waits for something, and those behind it wait for that one: `BLPOP`. */
  readonly isWaiting: boolean;
  /** Calls this when what was sent over it before no longer waits. */
  behind(deliver: () => void): void;
  /** The adversary breaks it, now. */
  breaks(): void;
  /** Something has come to the machine of the node, whose process is not there, or knows nothing of the connection. */
  unheard(): void;
}

/** What two machines say about a connection, rather than over it: that it opens, ends or breaks. */
export interface Control {
  readonly connection: Connection;
  readonly client: number;
  readonly node: number;
  readonly direction: Direction;
  /** The kernel of the node takes it, though the process may stand still. */
  readonly isForKernel: boolean;
  /** The node wakes itself: nothing goes over the network, and a node that is suspended wakes later. */
  readonly isOfNode?: boolean;
  /** It has arrived. */
  arrive(): void;
}

/** A command of a client that does not run the lock of `core`: anything that a Redis server understands. */
export interface RemoteCall {
  /** What it is sent over; messages that go each by itself where left out. */
  readonly connection?: Connection;
  /**
   * Carries it out on the node, now; what the command of the message says about it is for monitors and reports. `null` where
   * there is nothing to answer.
   */
  execute(message: Message): Answer | null;
  /** What travels back with the last answer, in the place of the fencing counter. */
  readonly told: number;
  /** The command itself, for reports; `{token}` stands for the token of the message. */
  readonly said: string;
}

/**
 * One command on its way to one node, and its answer on the way back. Indices, not names: this is the hot path. A class, so
 * that all of them have one shape: where copies have shapes of their own, the engine looks fields up the slow way.
 */
export class Message {
  client: number;
  owner: SimLock;
  node: number;
  /** The node's place in the list of the client. */
  place: number;
  command: Command;
  /** Keys of the lock, by the world's index. */
  keys: readonly number[];
  /** Counts repeated sendings of the same command to the same node. */
  send: number;
  /** It brings the text of its script, because the node did not know that by its hash. */
  withText: boolean;
  /** What it means to the node, where that is not the core's to say. */
  remote: RemoteCall | null;
  /** What became of the connection that it was sent over: its answer came, or it broke and the message was sent again. */
  state: 'open' | 'answered' | 'broken' = 'open';

  /** What a lock asks of the node at this place of its list. */
  constructor(
    lock: SimLock,
    node: number,
    place: number,
    command: Command,
    send: number,
    withText: boolean,
    remote: RemoteCall | null,
  ) {
    this.client = lock.client.index;
    this.owner = lock;
    this.node = node;
    this.place = place;
    this.command = command;
    this.keys = lock.keys;
    this.send = send;
    this.withText = withText;
    this.remote = remote;
  }

  /** Its number among those of its client. */
  get lock(): number {
    return this.owner.number;
  }

  /** As a new one. */
  reset(
    lock: SimLock,
    node: number,
    place: number,
    command: Command,
    send: number,
    withText: boolean,
    remote: RemoteCall | null,
  ): void {
    this.client = lock.client.index;
    this.owner = lock;
    this.node = node;
    this.place = place;
    this.command = command;
    this.keys = lock.keys;
    this.send = send;
    this.withText = withText;
    this.remote = remote;
    this.state = 'open';
  }
}

/** A command as messages of the world have it: one object for all that carry it, which further runs use again. */
export class SentCommand implements Command {
  operation: Command['operation'] = 'acquire';
  attempt = 0;
  round = 0;
  token: Command['token'] = 0 as Command['token'];
  ttlMs = 0;
  counter = 0;
  mark: number | undefined = undefined;

  /** Makes it the same as another one. */
  set({ operation, attempt, round, token, ttlMs, counter, mark }: Command): void {
    this.operation = operation;
    this.attempt = attempt;
    this.round = round;
    this.token = token;
    this.ttlMs = ttlMs;
    this.counter = counter;
    this.mark = mark;
  }
}

/** From a client to a node, or back. */
export type Direction = 'request' | 'reply';

/** What an adversary decides about one message. Filled in, not allocated. */
export interface FateSlot {
  delayUs: number;
  lost: boolean;
  /** Delay of a second copy, or -1 for none. */
  duplicateDelayUs: number;
  /** After which a request that has no answer is sent again, or -1 for never. */
  resendAfterUs: number;
}
