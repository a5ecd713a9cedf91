import { allNodes, type NodeSet, oneNode, size, union, without } from '../../core/index.js';

/** How many nodes at least have known their fencing counter all through a run. At its start all do. */
export class Counters {
  /** The least number at any time. */
  fewest: number;
  private known: NodeSet;

  constructor(nodes: number) {
    this.known = allNodes(nodes);
    this.fewest = nodes;
  }

  /** For another run. */
  reset(nodes: number): void {
    this.known = allNodes(nodes);
    this.fewest = nodes;
  }

  /** A node's counter changed; -1 if it was lost. */
  counterSet(node: number, counter: number): void {
    if (counter < 0) this.processEnds(node);
    else this.known = union(this.known, oneNode(node));
  }

  /** Whatever comes after it does not know what it has acknowledged since it was last on disk. */
  processEnds(node: number): void {
    this.known = without(this.known, oneNode(node));
    this.fewest = Math.min(this.fewest, size(this.known));
  }
}
