import { type Answer, type Command, has, type LockPolicy, type NodeSet, SOUND_POLICY } from '../core/index.js';
import { lockPolicyOf } from '../deviations/index.js';
import type { ClientProcess } from './client-process.js';
import { answersAfterUs } from './disk.js';
import type { Links } from './links.js';
import { Message, type RemoteCall, SentCommand } from './message.js';
import type { SimNode } from './node.js';
import { EventKind, type Queue, type QueueEvent } from './queue.js';
import type { RunContext } from './run-context.js';
import { isScript, NO_SCRIPT } from './scripts.js';
import type { SimLock } from './sim-lock.js';
import { after } from './time.js';
import { Kind } from './trace.js';
import type { WorldView } from './view.js';

/** What clients and nodes say to each other: requests, what nodes make of them, and answers, over {@link Links}. */
export class Exchange {
  private readonly view: WorldView;
  private readonly context: RunContext;
  private readonly links: Links;
  private readonly queue: Queue;
  private policy: LockPolicy = SOUND_POLICY;
  /** Whether nodes wait with their answers. */
  private waits = false;
  /** Whether scripts go to nodes by their hash. */
  private byHash = false;
  /** Those of this run, and behind them those of earlier ones, to be used again. */
  private readonly messages: Message[] = [];
  private messageCount = 0;
  private readonly commands: SentCommand[] = [];
  private commandCount = 0;

  constructor(view: WorldView, context: RunContext, links: Links, queue: Queue) {
    this.view = view;
    this.context = context;
    this.links = links;
    this.queue = queue;
    this.reset();
  }

  /** Resets to the set-up that the world has now. */
  reset(): void {
    const { cluster, policy } = this.view.setup;
    this.messageCount = 0;
    this.commandCount = 0;
    this.policy = lockPolicyOf(policy);
    this.byHash = cluster.scripts === 'by-hash';
    this.waits = cluster.answers === 'replicated' || cluster.answers === 'durable';
  }

  private message(
    lock: SimLock,
    node: number,
    place: number,
    command: Command,
    send: number,
    withText: boolean,
    remote: RemoteCall | null,
  ): Message {
    // What libraries send holds on to much of theirs, and their worlds make one run.
    if (remote !== null) return new Message(lock, node, place, command, send, withText, remote);
    const { messages } = this;
    const index = this.messageCount++;
    if (index < messages.length) {
      const known = messages[index] as Message;
      known.reset(lock, node, place, command, send, withText, remote);
      return known;
    }
    const made = new Message(lock, node, place, command, send, withText, remote);
    messages.push(made);
    return made;
  }

  /** The command in an object of its own, which is used again in the next run. */
  private kept(command: Command): Command {
    const { commands } = this;
    const index = this.commandCount++;
    if (index >= commands.length) commands.push(new SentCommand());
    const kept = commands[index] as SentCommand;
    kept.set(command);
    return kept;
  }

  send(lock: SimLock, to: NodeSet, asked: Command, remote: RemoteCall | null): void {
    const { client, list } = lock;
    const command = remote === null ? this.kept(asked) : asked;
    this.context.observer.sent(lock, list.at(to), command, this.context.now);
    const { nodes } = this.view;
    const { nodes: places } = list;
    const counts = lock.countsSends(command);
    for (let place = 0; place < places.length; place++) {
      const node = has(to, place) ? nodes[places[place] ?? 0] : undefined;
      if (node === undefined) continue;
      const send = counts ? lock.countSend(command, node.index) : 0;
      const message = this.message(lock, node.index, place, command, send, false, remote);
      this.links.send(message, send, null, 0, client, node);
    }
  }

  /** The connection that a request was sent over breaks, unless its answer came; the client's library sends it again. */
  resend(message: Message, client: ClientProcess): boolean {
    const { owner: lock } = message;
    const node = this.view.nodes[message.node];
    if (lock.gone || node === undefined) return false;
    const connection = message.remote?.connection;
    if (connection !== undefined) {
      connection.breaks();
      return true;
    }
    if (message.state !== 'open') return false;
    message.state = 'broken';
    this.links.reconnect(message);
    this.sendAgain(message, message.withText, lock, client, node);
    return true;
  }

  private sendAgain(
    { place, command, remote }: Message,
    withText: boolean,
    lock: SimLock,
    client: ClientProcess,
    node: SimNode,
  ): void {
    const send = lock.countResend(command, node.index);
    const message = this.message(lock, node.index, place, command, send, withText, remote);
    this.links.send(message, send, null, 0, client, node);
  }

  /** A node sends over the connection of a message what nobody has asked for in it. */
  tell(message: Message, told: number): void {
    const client = this.view.clients[message.client];
    const node = this.view.nodes[message.node];
    if (client === undefined || node === undefined) return;
    const { owner: lock, command, place, remote } = message;
    const send = lock.countResend(command, node.index);
    const own = this.message(lock, node.index, place, command, send, false, remote);
    this.links.send(own, 2 * send, 'yes', told, node, client);
  }

  deliverRequest(message: Message, node: SimNode, copy: number, life: number): void {
    const { context } = this;
    const { command, owner, remote } = message;
    const { client } = owner;
    if (node.down || (life >= 0 && life !== node.life) || remote?.connection?.isBroken === true) {
      context.noteMessage(Kind.dropped, node, message, client.traceId, null);
      remote?.connection?.unheard();
      return;
    }
    if (remote?.connection?.isWaiting === true) {
      remote.connection.behind(() => this.deliverRequest(message, node, copy, life));
      return;
    }
    context.cause = context.noteMessage(Kind.execute, node, message, client.traceId, null);
    if (this.byHash && remote === null && !this.understands(node, message)) {
      this.links.send(message, 2 * message.send + copy, 'error', NO_SCRIPT, node, client);
      return;
    }
    const { observer, now } = context;
    observer.executes(node.index, command, now);
    const answer = remote === null ? node.execute(this.policy, command, message.keys, now) : remote.execute(message);
    const told = remote === null ? node.counter.told : remote.told;
    observer.executed(node.index, command, answer ?? 'no', now);
    if (answer !== null) this.sendAnswer(message, copy, answer, told, node);
  }

  /** At once, or when the node may answer. */
  private sendAnswer(message: Message, copy: number, answer: Answer, told: number, node: SimNode): void {
    const heldUs = this.waits && answer === 'yes' ? this.heldUs(message.command, node) : 0;
    if (heldUs === 0) this.links.send(message, 2 * message.send + copy, answer, told, node, message.owner.client);
    else if (heldUs !== null) this.pushAnswer(message, copy, answer, told, node, heldUs);
  }

  /** Whether a node knows what a command says, or would not do it anyway. */
  private understands(node: SimNode, { command, keys, withText }: Message): boolean {
    const { operation } = command;
    if (node.refuses(operation, this.context.now)) return true;
    if (withText) node.scripts.keep(operation);
    return !isScript(this.policy.rules, command, keys) || node.scripts.knows(operation);
  }

  /** How long a node waits with its answer, µs, or `null` for ever: only what writes keys has anything to wait for. */
  private heldUs({ operation }: Command, node: SimNode): number | null {
    if (operation !== 'acquire' && operation !== 'extend') return 0;
    return answersAfterUs(this.view.setup.cluster, this.context.now, node.hasReplica);
  }

  private pushAnswer(
    message: Message,
    copy: number,
    answer: Answer,
    told: number,
    node: SimNode,
    heldUs: number,
  ): void {
    const { context, links, queue } = this;
    const event = queue.blank(EventKind.answer, after(context.now, heldUs), links.nextRank(), node, message);
    event.cause = context.cause;
    event.index = copy;
    event.answer = answer;
    event.counter = told;
    event.life = node.life;
    this.queue.push(event);
  }

  answer(message: Message, { index, answer, counter, life }: QueueEvent, node: SimNode): boolean {
    if (node.down || life !== node.life) return false;
    this.links.send(message, 2 * message.send + index, answer, counter, node, message.owner.client);
    return true;
  }

  deliverReply(message: Message, client: ClientProcess, answer: Answer, counter: number): void {
    if (message.owner.gone) return;
    const { context } = this;
    if (message.state === 'broken') {
      context.noteMessage(Kind.dropped, client, message, message.node, answer);
      return;
    }
    if (counter === NO_SCRIPT) {
      if (message.state === 'open') this.sendText(message, client);
      return;
    }
    message.state = 'answered';
    const answerCode = answer === 'yes' ? 0 : answer === 'no' ? 1 : 2;
    context.cause = context.noteMessage(Kind.reply, client, message, answerCode * 64 + message.node, answer);
    client.receive(message, answer, counter);
  }

  /** The node does not know the script: the client sends its text, whatever has become of the lock since, and once. */
  private sendText(message: Message, client: ClientProcess): void {
    const node = this.view.nodes[message.node];
    if (node === undefined) return;
    message.state = 'answered';
    this.context.cause = this.context.noteMessage(Kind['no-script'], client, message, message.node, 'error');
    this.sendAgain(message, true, message.owner, client, node);
  }
}
