import { EventEmitter } from 'node:events';
import { sha1 } from '../../wire/index.js';
import { fromBytes, toBytes } from './bytes.js';
import { COMMAND_NAMES, CONNECTION_COMMAND_NAMES } from './server.js';

/** Commands that were sent. */
export interface Sent {
  /** What the node answers to each of them; rejects where nothing could be sent. */
  readonly replies: Promise<unknown[]>;
  /** Nobody waits for the answer any more. */
  abandon(): void;
}

/** Sends commands to one node, all of them in one message. */
export interface Wire {
  /** The name of the node, `n0`. */
  readonly name: string;
  /** Whether the node runs. */
  isUp(): boolean;
  send(commands: readonly (readonly string[])[]): Sent;
  /** Has `callback` called by a timer of the process. */
  later(callback: () => void, delayMs: number): { cancel(): void };
  /** What a method is rejected with that needs a connection which keeps its state. */
  unsupported(method: string): Error;
}

/** The options of ioredis that the simulated client has: others, such as a key prefix, are taken and mean nothing. */
interface SimRedisOptions {
  /** A command rejects after this, ms. */
  readonly commandTimeout?: number | undefined;
  /** To be read. */
  readonly host?: string;
  readonly port?: number;
  readonly lazyConnect?: boolean;
}

type Callback = (error: Error | null, result?: unknown) => void;

/** Arguments as they go over the wire: lists are flattened, everything is a string. */
function wordsOf(args: readonly unknown[]): string[] {
  return args.flat(2).map(wordOf);
}

function wordOf(value: unknown): string {
  if (value instanceof Uint8Array) return fromBytes(Buffer.from(value).toString('latin1'));
  return value === null || value === undefined ? '' : String(value);
}

function withCallback<T>(promise: Promise<T>, callback: Callback | undefined): Promise<T> {
  if (callback === undefined) return promise;
  // What a callback returns is nobody's business: it may be a promise that rejects.
  promise.then(
    (result) => void callback(null, result),
    (error: Error) => void callback(error),
  );
  return promise;
}

/** Takes the callback off the end of a list of arguments. */
function split(args: readonly unknown[]): [string[], Callback | undefined] {
  const last = args.at(-1);
  return typeof last === 'function' ? [wordsOf(args.slice(0, -1)), last as Callback] : [wordsOf(args), undefined];
}

/**
 * A connection to one simulated node, with the interface of an ioredis client: the commands of the node, scripts and
 * `defineCommand`, `pipeline` and `multi`, `status` and events, `duplicate`, `quit` and `disconnect`. It is always
 * connected; a node that is down does not answer. `watch`, `subscribe` and other commands that need a connection of their own
 * are rejected.
 */
export class SimRedis extends EventEmitter {
  readonly options: SimRedisOptions;
  readonly isCluster = false;
  readonly #wire: Wire;
  #state: 'wait' | 'connecting' | 'connect' | 'ready' | 'end' = 'ready';

  constructor(wire: Wire, options: SimRedisOptions = {}) {
    super();
    this.#wire = wire;
    this.options = options;
    if (options.lazyConnect) this.#state = 'wait';
  }

  get status(): string {
    return this.#state === 'ready' && !this.#wire.isUp() ? 'reconnecting' : this.#state;
  }

  /** Sends any command. */
  call(command: string, ...args: unknown[]): Promise<unknown> {
    const [words, callback] = split(args);
    return withCallback(this.#one([command, ...words]), callback);
  }

  async #one(command: readonly string[]): Promise<unknown> {
    const [reply] = await this.#exchange([command]);
    if (reply instanceof Error) throw reply;
    return reply;
  }

  async #exchange(commands: readonly (readonly string[])[]): Promise<unknown[]> {
    if (this.#state === 'end') throw new Error('Connection is closed.');
    const { commandTimeout } = this.options;
    const sent = this.#wire.send(commands);
    if (commandTimeout === undefined) return sent.replies;
    return new Promise((resolve, reject) => {
      const timeOut = (): void => {
        sent.abandon();
        reject(new Error('Command timed out'));
      };
      const timer = this.#wire.later(timeOut, commandTimeout);
      sent.replies.then(resolve, reject).finally(() => timer.cancel());
    });
  }

  /** Makes a method of a script: `EVALSHA`, and `EVAL` where the node does not have it. */
  defineCommand(name: string, definition: { readonly lua: string; readonly numberOfKeys?: number }): void {
    const sha = sha1(toBytes(definition.lua));
    const { numberOfKeys } = definition;
    const method = (...args: unknown[]): Promise<unknown> => {
      const [given, callback] = split(args);
      const words = numberOfKeys === undefined ? given : [String(numberOfKeys), ...given];
      const run = async (): Promise<unknown> => {
        try {
          return await this.#one(['evalsha', sha, ...words]);
        } catch (error) {
          if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error;
          return this.#one(['eval', definition.lua, ...words]);
        }
      };
      return withCallback(run(), callback);
    };
    Object.defineProperty(this, name, { value: method, configurable: true, writable: true });
  }

  /** Collects commands and sends each by itself, one after the other. */
  pipeline(commands: readonly (readonly unknown[])[] = []): Batch {
    return new Batch(async (all) => Promise.all(all.map((it) => settled(this.#one(it)))), commands);
  }

  /** Collects commands that the node carries out with nothing in between. */
  multi(commands: readonly (readonly unknown[])[] = []): Batch {
    return new Batch(async (all) => {
      const replies = await this.#exchange(all);
      return replies.map((it): [Error | null, unknown] => (it instanceof Error ? [it, undefined] : [null, it]));
    }, commands);
  }

  async connect(): Promise<void> {
    this.#state = 'connecting';
    await Promise.resolve();
    this.#state = 'connect';
    this.emit('connect');
    this.#state = 'ready';
    this.emit('ready');
  }

  /** Another connection to the same node. */
  duplicate(options: SimRedisOptions = {}): SimRedis {
    return new SimRedis(this.#wire, { ...this.options, ...options });
  }

  async quit(callback?: Callback): Promise<'OK'> {
    this.disconnect();
    callback?.(null, 'OK');
    return 'OK';
  }

  disconnect(): void {
    if (this.#state === 'end') return;
    this.#state = 'end';
    this.emit('close');
    this.emit('end');
  }

  /** For messages: the node's name. */
  override toString(): string {
    return `SimRedis(${this.#wire.name})`;
  }

  static {
    for (const name of CONNECTION_COMMAND_NAMES) {
      if (name in SimRedis.prototype) continue;
      const value = async function (this: SimRedis): Promise<never> {
        throw this.#wire.unsupported(name);
      };
      Object.defineProperty(SimRedis.prototype, name, { configurable: true, writable: true, value });
    }
  }
}

async function settled(promise: Promise<unknown>): Promise<[Error | null, unknown]> {
  try {
    return [null, await promise];
  } catch (error) {
    return [error instanceof Error ? error : new Error(String(error)), undefined];
  }
}

type Execute = (commands: readonly (readonly string[])[]) => Promise<[Error | null, unknown][]>;

/** Commands that are sent by {@link Batch.exec}. Each method adds one and gives the batch back. */
class Batch {
  readonly #execute: Execute;
  readonly #commands: string[][] = [];

  constructor(execute: Execute, commands: readonly (readonly unknown[])[]) {
    this.#execute = execute;
    for (const command of commands) this.#commands.push(wordsOf(command));
  }

  get length(): number {
    return this.#commands.length;
  }

  call(command: string, ...args: unknown[]): this {
    this.#commands.push([command, ...split(args)[0]]);
    return this;
  }

  /** `[error, result]` of each. */
  exec(callback?: Callback): Promise<[Error | null, unknown][]> {
    return withCallback(this.#execute(this.#commands), callback);
  }
}

for (const name of COMMAND_NAMES) {
  const method = {
    configurable: true,
    writable: true,
    value(this: SimRedis | Batch, ...args: unknown[]): unknown {
      return this.call(name, ...args);
    },
  };
  Object.defineProperty(SimRedis.prototype, name, method);
  Object.defineProperty(Batch.prototype, name, method);
}
