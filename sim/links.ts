import type { Answer } from '../core/index.js';
import type { Adversary } from './adversary.js';
import type { Connection, Control, Direction, FateSlot, Message } from './message.js';
import { NodeList } from './node-list.js';
import { nodeIndex, nodeName } from './node-name.js';
import type { Process } from './process.js';
import { EventKind, type Queue, rankOf, TieRank } from './queue.js';
import type { RunContext } from './run-context.js';
import { after, type TrueTime, trueTime } from './time.js';
import { Kind } from './trace.js';
import type { WorldView } from './view.js';

/** Between whom something is sent. */
type Ends = Pick<Message, 'client' | 'node'>;

/** The first retransmission of TCP comes after this, each further one after twice as long, up to the longest, µs (Linux). */
const FIRST_RETRANSMISSION_US = 200_000;
const LONGEST_RETRANSMISSION_US = 120_000_000;

const FIRST_RANK: number = rankOf(TieRank.delivery, 0);

/** When TCP first sends again at or after `fromUs`, µs from the first sending. */
export function sentAgainUs(fromUs: number): number {
  let at = 0;
  for (let every = FIRST_RETRANSMISSION_US; at < fromUs; every = Math.min(2 * every, LONGEST_RETRANSMISSION_US))
    at += every;
  return at;
}

/** Makes the first places of a list 0. */
function clear(list: number[], length: number): void {
  for (let i = 0; i < length; i++) list[i] = 0;
}

/** The network: delays, losses and copies as the adversary says, partitions, and order where links keep it. */
export class Links {
  private readonly view: WorldView;
  private adversary: Adversary;
  private readonly context: RunContext;
  private readonly queue: Queue;
  /** The rank of the next delivery. */
  private rank = FIRST_RANK;
  private readonly fate: FateSlot = { delayUs: 0, lost: false, duplicateDelayUs: -1, resendAfterUs: -1 };
  private ordered = false;
  private delayUs = 0;
  private nodes = 0;
  /** By client and node: what a message takes when its fate does not say, µs. */
  private readonly distances: number[] = [];
  /** By {@link index}: the latest arrival, for links that keep order. */
  private readonly lastArrival: number[] = [];
  /** The same: until when the link is cut, or what is sent over it is held back; looked at where there is such a link. */
  private readonly cutUntil: number[] = [];
  private readonly heldUntil: number[] = [];
  private cuts = false;
  private holds = false;
  /** By then no link is cut or held back any more. */
  private brokenUntil = 0;

  constructor(view: WorldView, adversary: Adversary, context: RunContext, queue: Queue) {
    this.view = view;
    this.adversary = adversary;
    this.context = context;
    this.queue = queue;
    this.reset(adversary);
  }

  /** Resets to the set-up that the world has now. */
  reset(adversary: Adversary): void {
    const { cluster, clients } = this.view.setup;
    this.adversary = adversary;
    this.rank = FIRST_RANK;
    this.ordered = cluster.link === 'fifo';
    this.delayUs = cluster.delayUs;
    this.nodes = cluster.nodes;
    const links = 2 * clients.length * cluster.nodes;
    if (this.ordered) clear(this.lastArrival, links);
    if (this.cuts) clear(this.cutUntil, this.cutUntil.length);
    if (this.holds) clear(this.heldUntil, this.heldUntil.length);
    this.cuts = false;
    this.holds = false;
    this.brokenUntil = 0;
    const { distances } = this;
    for (let pair = 0; pair < links / 2; pair++) distances[pair] = cluster.delayUs;
    for (const { client, node, delayUs } of cluster.distances) {
      const at = clients.indexOf(client);
      if (at >= 0) distances[at * cluster.nodes + nodeIndex(node)] = delayUs;
    }
  }

  /** Sends a request (`answer` is `null`) or a reply, with the counter that it tells. */
  send(message: Message, send: number, answer: Answer | null, counter: number, from: Process, to: Process): void {
    const { fate, context } = this;
    if (message.remote !== null || context.trace.keeping) {
      this.sendWatched(message, send, answer, counter, from, to);
      return;
    }
    // The same, without what is only for connections and kept traces.
    const pair = message.client * this.nodes + message.node;
    fate.delayUs = this.distances[pair] ?? this.delayUs;
    fate.lost = false;
    fate.duplicateDelayUs = -1;
    fate.resendAfterUs = -1;
    this.adversary.fate(message, answer === null ? 'request' : 'reply', send, fate, this.view);
    const link = answer === null ? 2 * pair : 2 * pair + 1;
    const { now, observer } = context;
    let heldUs = 0;
    let isLost = fate.lost;
    if (now < this.brokenUntil) {
      if (this.cuts && now < (this.cutUntil[link] ?? 0)) isLost = true;
      if (this.holds) heldUs = Math.max(0, (this.heldUntil[link] ?? 0) - now);
    }
    const { lost, delayUs, duplicateDelayUs, resendAfterUs } = fate;
    const seq = isLost ? context.noteMessage(Kind.lost, from, message, to.traceId, answer) : context.trace.pass();
    if (resendAfterUs >= 0 && answer === null) this.planResend(message, resendAfterUs, from, seq);
    if (isLost) {
      if (lost) observer.troubled(now, now);
      return;
    }
    const at = this.arrive(message, link, answer, counter, to, 0, heldUs + delayUs, seq);
    if (at - now > observer.slowUs) observer.troubled(at, now);
    if (duplicateDelayUs < 0) return;
    observer.troubled(this.arrive(message, link, answer, counter, to, 1, heldUs + duplicateDelayUs, seq), now);
  }

  /** Puts the arrival of a message that is not on a connection into the queue. */
  private arrive(
    message: Message,
    link: number,
    answer: Answer | null,
    counter: number,
    to: Process,
    copy: number,
    delayUs: number,
    cause: number,
  ): TrueTime {
    let at = after(this.context.now, delayUs);
    if (this.ordered) {
      const last = this.lastArrival[link] ?? 0;
      if (last > at) at = last as TrueTime;
      this.lastArrival[link] = at;
    }
    const kind = answer === null ? EventKind.request : EventKind.reply;
    const event = this.queue.blank(kind, at, this.nextRank(), to, message);
    event.cause = cause;
    event.index = copy;
    event.answer = answer ?? 'error';
    event.counter = counter;
    this.queue.push(event);
    return at;
  }

  private sendWatched(
    message: Message,
    send: number,
    answer: Answer | null,
    counter: number,
    from: Process,
    to: Process,
  ): void {
    const { fate, context } = this;
    const direction: Direction = answer === null ? 'request' : 'reply';
    fate.delayUs = this.usualDelay(message);
    fate.lost = false;
    fate.duplicateDelayUs = -1;
    fate.resendAfterUs = -1;
    this.adversary.fate(message, direction, send, fate, this.view);
    const connection = message.remote?.connection;
    const isCut = this.cuts && this.isCut(message, direction);
    const lost = connection === undefined && (fate.lost || isCut);
    // A schedule keeps no delay of what is lost.
    if (fate.lost) fate.delayUs = this.usualDelay(message);
    const seq = context.noteSend(lost ? Kind.lost : Kind.send, from, message, to.traceId, answer);
    if (fate.resendAfterUs >= 0 && answer === null) this.planResend(message, fate.resendAfterUs, from, seq);
    const { observer, now, trace } = context;
    if (lost) {
      if (fate.lost) observer.troubled(now, now);
      else if (trace.keeping) trace.add('cut', 1);
      return;
    }
    const heldUs =
      connection !== undefined
        ? this.waitOf(message, direction, fate.lost || isCut)
        : this.holds
          ? this.heldFor(message, direction)
          : 0;
    const at = this.deliver(message, answer, counter, to, 0, heldUs + fate.delayUs, seq);
    if (trace.keeping) trace.add('arrivesUs', at);
    if (at - now > observer.slowUs) observer.troubled(at, now);
    if (fate.duplicateDelayUs < 0 || connection !== undefined) return;
    const copyAt = this.deliver(message, answer, counter, to, 1, heldUs + fate.duplicateDelayUs, seq);
    if (trace.keeping) trace.add('copyArrivesUs', copyAt);
    observer.troubled(copyAt, now);
  }

  private planResend(message: Message, afterUs: number, from: Process, cause: number): void {
    const at = after(this.context.now, afterUs);
    const event = this.queue.blank(EventKind.resend, at, this.nextRank(), from, message);
    event.cause = cause;
    this.queue.push(event);
    const { trace, observer, now } = this.context;
    if (trace.keeping) trace.add('resendUs', at);
    observer.troubled(at, now);
  }

  /** A client has a new connection to a node: what is sent over it need not wait for what was sent over the old one. */
  reconnect({ client, node }: Message): void {
    if (!this.ordered) return;
    this.lastArrival[this.index(client, node, 'request')] = 0;
    this.lastArrival[this.index(client, node, 'reply')] = 0;
  }

  private deliver(
    message: Message,
    answer: Answer | null,
    counter: number,
    to: Process,
    copy: number,
    delayUs: number,
    cause: number,
  ): TrueTime {
    const direction: Direction = answer === null ? 'request' : 'reply';
    const connection = message.remote?.connection;
    const at =
      connection !== undefined
        ? this.inOrderOn(connection, direction, delayUs)
        : this.ordered
          ? this.inOrder(message, direction, delayUs)
          : after(this.context.now, delayUs);
    const kind = answer === null ? EventKind.request : EventKind.reply;
    const event = this.queue.blank(kind, at, this.nextRank(), to, message);
    event.cause = cause;
    event.index = copy;
    event.answer = answer ?? 'error';
    event.counter = counter;
    this.queue.push(event);
    return at;
  }

  /** What a message takes when its fate does not say. */
  private usualDelay({ client, node }: Ends): number {
    return this.distances[client * this.nodes + node] ?? this.delayUs;
  }

  /** Deliveries of one instant, writes to the resource among them, come in the order in which they were sent. */
  nextRank(): number {
    return this.rank++;
  }

  /** Number of a link in one direction. */
  private index(client: number, node: number, direction: Direction): number {
    return 2 * (client * this.nodes + node) + (direction === 'request' ? 0 : 1);
  }

  /** The arrival of a message that does not overtake the one before it on its connection. */
  private inOrder(message: Message, direction: Direction, delayUs: number): TrueTime {
    const link = this.index(message.client, message.node, direction);
    const at = after(this.context.now, delayUs);
    const last = this.lastArrival[link] ?? 0;
    const arrival = at > last ? at : (last as TrueTime);
    this.lastArrival[link] = arrival;
    return arrival;
  }

  /** Sends what is about a connection. It comes in order with what goes over that. */
  sendControl(control: Control, to: Process | null): void {
    const { connection, direction } = control;
    const isCut = this.cuts && this.isCut(control, direction);
    const delayUs = this.usualDelay(control) + this.waitOf(control, direction, isCut);
    const at = this.inOrderOn(connection, direction, delayUs);
    const event = this.queue.blank(EventKind.control, at, this.nextRank(), to, control);
    event.cause = this.context.cause;
    event.slot = 0;
    this.queue.push(event);
  }

  private inOrderOn({ arrivals }: Connection, direction: Direction, delayUs: number): TrueTime {
    const at = after(this.context.now, delayUs);
    const arrival = at > arrivals[direction] ? at : trueTime(arrivals[direction]);
    arrivals[direction] = arrival;
    return arrival;
  }

  /** How long a kernel has to wait, and to send again what is lost, until something gets through, µs. */
  private waitOf(ends: Ends, direction: Direction, isLost: boolean): number {
    const cutUs = (this.cutUntil[this.index(ends.client, ends.node, direction)] ?? 0) - this.context.now;
    return Math.max(this.heldFor(ends, direction), isLost ? sentAgainUs(Math.max(1, cutUs)) : 0);
  }

  private isCut({ client, node }: Ends, direction: Direction): boolean {
    return this.context.now < (this.cutUntil[this.index(client, node, direction)] ?? 0);
  }

  private heldFor({ client, node }: Ends, direction: Direction): number {
    return Math.max(0, (this.heldUntil[this.index(client, node, direction)] ?? 0) - this.context.now);
  }

  /** Whether what a client would send to a node now is lost, or what it would answer. */
  isCutOff(client: number, node: number): boolean {
    const until = (direction: Direction): number => this.cutUntil[this.index(client, node, direction)] ?? 0;
    return this.context.now < Math.max(until('request'), until('reply'));
  }

  /** Those of a client's nodes that it has a connection to; all of them where it has none. */
  connected(client: number, list: NodeList): NodeList {
    const { nodes } = this.view;
    const there = list.nodes.filter((node) => nodes[node]?.down === false && !this.isCutOff(client, node));
    return there.length === 0 ? list : new NodeList(nodes.length, there.map(nodeName));
  }

  /** Loses what is sent from a client to a node (`request`) or back (`reply`) until then, or holds it back. */
  cut(client: number, node: number, direction: Direction, until: TrueTime, holds: boolean): void {
    const link = this.index(client, node, direction);
    const list = holds ? this.heldUntil : this.cutUntil;
    if (!(holds ? this.holds : this.cuts)) clear(list, 2 * this.view.setup.clients.length * this.nodes);
    if (holds) this.holds = true;
    else this.cuts = true;
    this.brokenUntil = Math.max(until, this.brokenUntil);
    list[link] = Math.max(until, list[link] ?? 0);
  }
}
