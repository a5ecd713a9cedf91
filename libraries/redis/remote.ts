import type { Answer } from '../../core/index.js';
import type { Message, RemoteCall, SimLock, SimNode, World } from '../../sim/index.js';
import type { Reply } from '../../wire/index.js';
import type { Addressed } from '../addressed.js';
import type { Sent } from './client.js';
import type { RunNames } from './names.js';
import { toUser } from './reply.js';
import { refusalOf, type Server } from './server.js';
import { voteOf } from './vote.js';

/** Commands on their way to a node: carried out with nothing in between, once for each copy that arrives. */
export class RemoteCommands implements RemoteCall, Sent {
  told = 0;
  readonly said: string;
  readonly replies: Promise<unknown[]>;
  /** Somebody still waits for the answer. */
  isAwaited = true;
  private readonly lock: SimLock;
  private readonly node: SimNode;
  /** Its answer is taken the other way round; see `Meaning`. */
  private readonly isInverted: boolean;
  private readonly server: Server;
  private readonly commands: readonly (readonly string[])[];
  private readonly names: RunNames;
  private readonly context: World['context'];
  private resolve: (replies: unknown[]) => void = () => {};
  /** By execution: what the node answered. */
  private readonly answers: Reply[][] = [];

  constructor(
    commands: readonly (readonly string[])[],
    { lock, at, said, isInverted }: Addressed,
    {
      server,
      names,
      context,
    }: { readonly server: Server; readonly names: RunNames; readonly context: World['context'] },
  ) {
    this.isInverted = isInverted;
    this.said = said;
    this.lock = lock;
    this.node = at;
    this.server = server;
    this.commands = commands;
    this.names = names;
    this.context = context;
    this.replies = new Promise((resolve) => {
      this.resolve = resolve;
    });
  }

  abandon(): void {
    this.isAwaited = false;
  }

  execute({ command }: Message): Answer {
    const { context, names, node } = this;
    const { now } = context;
    const by = command.token as unknown as number;
    // Before its lock has a token, what is stored is that lock's all the same.
    names.lock = context.ownerOf(by) ?? this.lock;
    const refused = node.refuses(command.operation, now);
    const replies = this.commands.map((args) =>
      refused ? refusalOf(args) : this.server.execute(args, { node, now, names, by }),
    );
    const { lock } = names;
    names.lock = null;
    this.told = this.answers.push(replies) - 1;
    const words = this.commands.at(-1) ?? [];
    return voteOf(replies.at(-1) ?? null, {
      operation: command.operation,
      words,
      isInverted: this.isInverted,
      lock,
      node,
      context,
    });
  }

  /** An answer is back: that to this execution. */
  arrive(execution: number): void {
    this.resolve((this.answers[execution] ?? []).map(toUser));
  }
}
