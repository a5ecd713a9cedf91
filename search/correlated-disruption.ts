import { has, NO_NODES, type NodeSet, oneNode, union } from '../core/index.js';
import type { Message, RandomStream } from '../sim/index.js';
import type { FaultModel } from './fault-model.js';

const PERCENT = 10_000;
/** How late requests to nodes out of reach are at most, µs, if they are not lost. */
const LATEST_US = 100_000;

/** Nodes that one lock does not reach in time, and by how much: infinitely where it never does. */
interface Gap {
  readonly nodes: NodeSet;
  readonly lateUs: number;
}

const NO_GAP: Gap = { nodes: NO_NODES, lateUs: 0 };

/**
 * Trouble of the network in one piece: whatever one lock asks of a minority of the nodes is lost, or late by the same
 * time, and the next lock has trouble with others. So holders follow each other on different quorums, and what is late
 * meets a later holder.
 */
export class CorrelatedDisruption {
  /** By client: the gap of each of its locks. */
  private readonly gaps: Gap[][];
  private readonly faultModel: FaultModel;
  private readonly draw: RandomStream;

  constructor(faultModel: FaultModel, draw: RandomStream) {
    this.faultModel = faultModel;
    this.draw = draw;
    this.gaps = Array.from({ length: faultModel.clients }, () => []);
  }

  /** A client is about to ask for its next lock. */
  next(client: number): void {
    this.gaps[client]?.push(this.drawGap());
  }

  private drawGap(): Gap {
    const { draw, faultModel } = this;
    const minority = faultModel.nodes - (Math.floor(faultModel.nodes / 2) + 1);
    const [mayLose, mayDelay] = [faultModel.lossPpm > 0, faultModel.spikePpm > 0];
    if (minority === 0 || !(mayLose || mayDelay) || draw.chance(30 * PERCENT)) return NO_GAP;
    const nodes = draw.subset(faultModel.nodes, draw.between(1, minority)).map(oneNode).reduce(union);
    const lost = mayLose && (!mayDelay || draw.chance(40 * PERCENT));
    return { nodes, lateUs: lost ? Number.POSITIVE_INFINITY : draw.below(LATEST_US) };
  }

  /** How late a request is, µs: 0 where its node is within reach, infinite where it is lost. */
  lateUs({ client, lock, node }: Message): number {
    const { nodes, lateUs } = this.gaps[client]?.[lock] ?? NO_GAP;
    return has(nodes, node) ? lateUs : 0;
  }
}
