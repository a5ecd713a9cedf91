import { type Answer, nodeIndex } from '../core/index.js';
import type { Adversary } from './adversary.js';
import type { Chronicle } from './chronicle.js';
import type { Direction, FateSlot, Message } from './message.js';
import type { Process } from './process.js';
import { after, type TrueTime } from './time.js';
import { Kind } from './trace.js';
import type { WorldView } from './view.js';

/** Delivers one copy of a message at a true time. `answer` is `null` on the way to the node. */
export type Deliver = (message: Message, answer: Answer | null, copy: number, at: TrueTime) => void;

/** A severed direction between two sets of processes, by trace id. */
export interface Cut {
  readonly from: ReadonlySet<number>;
  readonly to: ReadonlySet<number>;
  readonly until: TrueTime;
}

/** The network: delays, losses and copies as the adversary says, partitions, and order where links keep it. */
export class Links {
  /** Severed directions; those that are over are dropped when next looked at. */
  cuts: Cut[] = [];
  private readonly view: WorldView;
  private readonly adversary: Adversary;
  private readonly chronicle: Chronicle;
  private readonly deliver: Deliver;
  private readonly fate: FateSlot = { delayUs: 0, lost: false, duplicateDelayUs: -1 };
  private readonly ordered: boolean;
  private readonly delayUs: number;
  /** By client and node, where it differs from the cluster's. */
  private readonly distances: number[] = [];
  /** Latest arrival per client, node and direction, for links that keep order. */
  private readonly lastArrival: number[] = [];

  constructor(view: WorldView, adversary: Adversary, chronicle: Chronicle, deliver: Deliver) {
    this.view = view;
    this.adversary = adversary;
    this.chronicle = chronicle;
    this.deliver = deliver;
    const { cluster, clients } = view.setup;
    this.ordered = cluster.link === 'fifo';
    this.delayUs = cluster.delayUs;
    for (const { client, node, delayUs } of cluster.distances) {
      this.distances[clients.indexOf(client) * cluster.nodes + nodeIndex(node)] = delayUs;
    }
  }

  /** Sends a request (`answer` is `null`) or a reply. */
  send(message: Message, send: number, answer: Answer | null, from: Process, to: Process): void {
    const { fate, chronicle } = this;
    const direction: Direction = answer === null ? 'request' : 'reply';
    fate.delayUs = this.usualDelay(message);
    fate.lost = false;
    fate.duplicateDelayUs = -1;
    this.adversary.fate(message, direction, send, fate, this.view);
    const lost = fate.lost || (this.cuts.length > 0 && this.isCut(from, to));
    const outer = chronicle.cause;
    chronicle.cause = chronicle.noteMessage(lost ? Kind.lost : Kind.send, from, message, to.traceId, answer);
    if (!lost) {
      this.deliver(message, answer, 0, this.arrival(message, direction, fate.delayUs));
      if (fate.duplicateDelayUs >= 0) {
        this.deliver(message, answer, 1, this.arrival(message, direction, fate.duplicateDelayUs));
      }
    }
    chronicle.cause = outer;
  }

  /** What a message takes when its fate does not say. */
  private usualDelay(message: Message): number {
    if (this.distances.length === 0) return this.delayUs;
    return this.distances[message.client * this.view.setup.cluster.nodes + message.node] ?? this.delayUs;
  }

  private arrival(message: Message, direction: Direction, delayUs: number): TrueTime {
    const at = after(this.chronicle.now, delayUs);
    if (!this.ordered) return at;
    const { length } = this.view.nodes;
    const link = 2 * (message.client * length + message.node) + (direction === 'request' ? 0 : 1);
    const last = this.lastArrival[link] ?? 0;
    const arrival = at > last ? at : (last as TrueTime);
    this.lastArrival[link] = arrival;
    return arrival;
  }

  private isCut(from: Process, to: Process): boolean {
    const { now } = this.chronicle;
    this.cuts = this.cuts.filter((cut) => cut.until > now);
    return this.cuts.some((cut) => cut.from.has(from.traceId) && cut.to.has(to.traceId));
  }
}
