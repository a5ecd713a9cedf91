import type { Answer, Command, Token } from '../core/index.js';
import { Interner, Memo } from './interner.js';

/** What a node answers to a command, which is a number here. `counter` as in a `Reply` of `core`. */
export interface NumberedReply {
  readonly command: number;
  readonly answer: Answer;
  readonly counter: number;
}

/** Commands of one world; {@link Nodes} packs one beside a client. */
export const MOST_COMMANDS = 1024;

/**
 * The commands and the replies of a world, by number. A token is the number of its attempt, so that clients share their
 * commands.
 */
export class Commands {
  private readonly commands = new Interner<Command>('commands', MOST_COMMANDS);
  private readonly replies = new Interner<NumberedReply>('replies', 65_535);

  idOf(command: Command): number {
    const { operation, attempt, round, token, ttlMs, counter, mark } = command;
    return this.commands.intern(`${operation} ${attempt} ${round} ${token} ${ttlMs} ${counter} ${mark}`, command);
  }

  at(id: number): Command {
    return this.commands.at(id);
  }

  /** All that were met, in the order of their numbers. */
  get values(): readonly Command[] {
    return this.commands.values;
  }

  replyId(reply: NumberedReply): number {
    const { command, answer, counter } = reply;
    return this.replies.intern(`${command} ${answer} ${counter}`, reply);
  }

  reply(id: number): NumberedReply {
    return this.replies.at(id);
  }

  /** All replies that were met, in the order of their numbers. */
  get replyValues(): readonly NumberedReply[] {
    return this.replies.values;
  }

  /** The same command of an attempt with another number: `to[attempt]` is the new one. */
  retold(id: number, to: readonly number[]): number {
    const command = this.at(id);
    const token = retoldToken(command.token as number, to) as Token;
    return this.idOf({ ...command, attempt: to[command.attempt] ?? command.attempt, token });
  }
}

/** The token of an attempt counts one more than the attempt. */
export function retoldToken(token: number, to: readonly number[]): number {
  return (to[token - 1] ?? token - 1) + 1;
}

/** What is on its way between a client and a node: commands in one direction, answers in the other. */
export interface Link {
  readonly requests: readonly number[];
  readonly replies: readonly number[];
}

const NOTHING: Link = { requests: [], replies: [] };

/** The number of the link on which nothing is on its way. */
export const IDLE_LINK = 0;

/** What can be on its way between one client and one node, by number, and how that changes. */
export class Links {
  private readonly links = new Interner<Link>('link contents', 65_535);
  private readonly sorted: boolean;
  private readonly asked = new Memo();
  private readonly answered = new Memo();
  private readonly untilRequest = new Memo();
  private readonly untilReply = new Memo();

  /** @param link - On a `reordering` link the order of sending is forgotten at once. */
  constructor(link: 'fifo' | 'reordering') {
    this.sorted = link === 'reordering';
    this.idOf(NOTHING);
  }

  at(id: number): Link {
    return this.links.at(id);
  }

  /** All that were met, in the order of their numbers. */
  get values(): readonly Link[] {
    return this.links.values;
  }

  /** With one more command on its way to the node. */
  withRequest(id: number, command: number): number {
    const known = this.asked.get(id, command);
    if (known >= 0) return known;
    const { requests, replies } = this.at(id);
    return this.asked.set(id, command, this.idOf({ requests: this.added(requests, command), replies }));
  }

  /** With one more answer on its way to the client. */
  withReply(id: number, reply: number): number {
    const known = this.answered.get(id, reply);
    if (known >= 0) return known;
    const { requests, replies } = this.at(id);
    return this.answered.set(id, reply, this.idOf({ requests, replies: this.added(replies, reply) }));
  }

  /** Without the command at this place. */
  withoutRequest(id: number, place: number): number {
    const known = this.untilRequest.get(id, place);
    if (known >= 0) return known;
    const { requests, replies } = this.at(id);
    return this.untilRequest.set(id, place, this.idOf({ requests: requests.toSpliced(place, 1), replies }));
  }

  /** Without the answer at this place. */
  withoutReply(id: number, place: number): number {
    const known = this.untilReply.get(id, place);
    if (known >= 0) return known;
    const { requests, replies } = this.at(id);
    return this.untilReply.set(id, place, this.idOf({ requests, replies: replies.toSpliced(place, 1) }));
  }

  /** Whether the message at this place can come next: the first one, or on a `reordering` link any (of equal ones, the first). */
  canCome(messages: readonly number[], place: number): boolean {
    if (!this.sorted) return place === 0;
    return place === 0 || messages[place] !== messages[place - 1];
  }

  /** With the attempts of its messages renumbered: `to[attempt]` is the new number. */
  retold(id: number, commands: Commands, to: readonly number[]): number {
    const { requests, replies } = this.at(id);
    const retell = (command: number): number => commands.retold(command, to);
    const answers = replies.map((id) => {
      const reply = commands.reply(id);
      return commands.replyId({ ...reply, command: retell(reply.command) });
    });
    return this.idOf({ requests: this.inOrder(requests.map(retell)), replies: this.inOrder(answers) });
  }

  private inOrder(messages: number[]): number[] {
    return this.sorted ? messages.sort((a, b) => a - b) : messages;
  }

  private added(messages: readonly number[], one: number): number[] {
    return this.inOrder([...messages, one]);
  }

  idOf(link: Link): number {
    return this.links.intern(`${link.requests.join()}|${link.replies.join()}`, link);
  }
}
