import type { Answer } from '../../core/index.js';
import type { Message, RemoteCall, SimLock, SimNode, World } from '../../sim/index.js';
import { encode } from '../../wire/index.js';
import type { Addressed } from '../addressed.js';
import { toBytes } from '../redis/bytes.js';
import type { RunNames } from '../redis/names.js';
import { refusalOf } from '../redis/server.js';
import { voteOf } from '../redis/vote.js';
import type { Connection } from './connection.js';
import { lastOf } from './replies.js';

const NOTHING = -2;

/** Commands on their way over a connection: what comes back are bytes. */
export class Segment implements RemoteCall {
  readonly connection: Connection;
  readonly said: string;
  told: number = NOTHING;
  private readonly node: SimNode;
  private readonly lock: SimLock;
  /** Its answer is taken the other way round; see `Meaning`. */
  private readonly isInverted: boolean;
  /** Nobody has asked the client for it. */
  private readonly isGreeting: boolean;
  private readonly commands: readonly (readonly string[])[];
  private readonly names: RunNames;
  private readonly context: World['context'];

  constructor(
    connection: Connection,
    commands: readonly (readonly string[])[],
    { lock, at, said, isInverted, isGreeting }: Addressed,
    { names, context }: { readonly names: RunNames; readonly context: World['context'] },
  ) {
    this.connection = connection;
    this.commands = commands;
    this.said = said;
    this.names = names;
    this.context = context;
    this.node = at;
    this.lock = lock;
    this.isInverted = isInverted;
    this.isGreeting = isGreeting;
    connection.used(said, isGreeting);
  }

  execute(message: Message): Answer | null {
    const { context, names, node, connection, commands } = this;
    const { now } = context;
    const { operation, token } = message.command;
    const by = token as unknown as number;
    // Before its lock has a token, what is stored is that lock's all the same.
    names.lock = context.ownerOf(by) ?? this.lock;
    const answered = node.refuses(operation, now)
      ? connection.answer(commands.map((it) => encode(refusalOf(it), 2)).join(''))
      : connection.execute(message, connection.isAscii ? commands : commands.map((words) => words.map(toBytes)), {
          node,
          now,
          names,
          by,
        });
    const { lock } = names;
    names.lock = null;
    if (answered === null) return null;
    this.told = answered.told;
    const words = commands.at(-1) ?? [];
    return voteOf(lastOf(answered.bytes), { operation, words, isInverted: this.isInverted, lock, node, context });
  }

  /** Something of the node is back. */
  arrive(told: number): void {
    this.connection.arrive(told, this.isGreeting && told === this.told);
  }
}

/** What clients send by themselves, as they connect and to see whether anybody is there. */
const GREETINGS: ReadonlySet<string> = new Set([
  'auth',
  'client',
  'hello',
  'info',
  'ping',
  'quit',
  'readonly',
  'select',
]);

/** Whether a command is none of its user's. */
export function isGreeting([name = '']: readonly string[]): boolean {
  return GREETINGS.has(name.toLowerCase());
}
