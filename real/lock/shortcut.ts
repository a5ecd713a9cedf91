import { EncodedCommand, type RedisConnection } from './request.js';

/** Sends a command, and resolves with the reply: its strings are buffers. */
export type FastPath = (words: EncodedCommand) => Promise<unknown>;

/** What lies below the methods of an ioredis connection. A Cluster and ioredis-mock do not have all of it. */
interface Depths {
  readonly stream?: object;
  readonly options?: { readonly keyPrefix?: unknown };
  sendCommand?(command: object): unknown;
  echo?(text: string): Promise<unknown>;
}

type CommandClass = new (words: EncodedCommand) => { readonly promise: Promise<unknown> };

/**
 * A way into `connection` that skips what ioredis does for each command and node, most of what a lock costs: collecting
 * arguments, two promises, and putting the same words into bytes for every node. What ioredis does with the connection
 * stays: writing, reading, matching replies to commands, and failing them when it ends.
 *
 * Resolves with `null` where it does not work: on a Cluster, on ioredis-mock, with a key prefix, and if a first command
 * that is sent this way does not come back as it should.
 */
export async function detectFastPath(connection: RedisConnection & Depths): Promise<FastPath | null> {
  const { stream, options } = connection;
  if (stream === undefined || options === undefined || options.keyPrefix) return null;
  const example = exampleOf(connection);
  if (example === undefined) return null;
  const Command = commandClassOf(Object.getPrototypeOf(example));
  const send = (words: EncodedCommand): Promise<unknown> => {
    const command = new Command(words);
    connection.sendCommand?.(command);
    return command.promise;
  };
  try {
    const reply = await send(new EncodedCommand('echo', [TRIAL]));
    return String(reply) === TRIAL ? send : null;
  } catch {
    return null;
  }
}

const TRIAL = 'lockstep';

/** What ioredis makes of a command: it hands it to `sendCommand`, which anybody may have in a form of their own. */
function exampleOf(connection: Depths): object | undefined {
  if (connection.sendCommand === undefined || connection.echo === undefined) return undefined;
  const own = Object.getOwnPropertyDescriptor(connection, 'sendCommand');
  let example: object | undefined;
  // It is not sent: nobody waits for the answer.
  connection.sendCommand = (command) => {
    example = command;
    return new Promise(() => {});
  };
  connection.echo(TRIAL).catch(() => undefined);
  if (own === undefined) Reflect.deleteProperty(connection, 'sendCommand');
  else Object.defineProperty(connection, 'sendCommand', own);
  return example;
}

const classes = new WeakMap<object, CommandClass>();

/** One class for each copy of ioredis, so that all its connections see objects of one shape. */
function commandClassOf(prototype: object): CommandClass {
  const known = classes.get(prototype);
  if (known !== undefined) return known;
  const made = deriveCommandClass(prototype);
  classes.set(prototype, made);
  return made;
}

/** Commands that are what ioredis takes for one, made without its constructor. */
function deriveCommandClass(prototype: object): CommandClass {
  class ShortCommand {
    readonly name: string;
    readonly args: readonly string[];
    readonly promise: Promise<unknown>;
    readonly resolve: (reply: unknown) => void;
    readonly reject: (reason: Error) => void;
    isResolved = false;
    isTraced = false;
    inTransaction = false;
    readonly transformed = true;
    readonly #command: EncodedCommand;

    constructor(command: EncodedCommand) {
      this.name = command.name;
      this.args = command.args;
      this.#command = command;
      let resolve: (reply: unknown) => void = () => {};
      let reject: (reason: Error) => void = () => {};
      this.promise = new Promise((onReply, onError) => {
        resolve = onReply;
        reject = onError;
      });
      this.resolve = resolve;
      this.reject = reject;
    }

    toWritable(): string {
      return this.#command.text;
    }
  }
  Object.setPrototypeOf(ShortCommand.prototype, prototype);
  return ShortCommand;
}
