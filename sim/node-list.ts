import { has, NO_NODES, type NodeSet, oneNode, size, union } from '../core/index.js';
import type { ProcessName } from '../scenarios/index.js';
import { nodeIndex } from './node-name.js';

/**
 * The nodes that a client has been told of, by their places in its list: the lock of `core` counts places, the world
 * counts nodes. Usually they are the same; a list may leave nodes out, have them in another order, or one twice.
 */
export class NodeList {
  /** By place: the node's index. */
  readonly nodes: readonly number[];
  /** How many different nodes there are, and how many of them are a majority. */
  readonly distinct: number;
  readonly majority: number;
  /** The size of the cluster. */
  readonly count: number;
  private readonly plain: boolean;
  private readonly own: NodeSet;

  /** `count` is the size of the cluster; without `names` the list is all of it, in order. */
  constructor(count: number, names?: readonly ProcessName[]) {
    this.count = count;
    this.nodes = names?.map(nodeIndex) ?? Array.from({ length: count }, (_, node) => node);
    this.plain = this.nodes.every((node, place) => node === place);
    this.own = this.nodes.map(oneNode).reduce(union, NO_NODES);
    this.distinct = size(this.own);
    this.majority = Math.floor(this.distinct / 2) + 1;
  }

  /** All nodes of a cluster of this size, in order; one list for all that need it. */
  static all(count: number): NodeList {
    let list = ALL[count];
    if (list === undefined) {
      list = new NodeList(count);
      ALL[count] = list;
    }
    return list;
  }

  /** The list of these names; one for all that are made of the same list of names. */
  static named(count: number, names: readonly ProcessName[]): NodeList {
    const known = NAMED.get(names);
    if (known !== undefined && known.count === count) return known;
    const list = new NodeList(count, names);
    NAMED.set(names, list);
    return list;
  }

  get places(): number {
    return this.nodes.length;
  }

  /** Whether a node has more than one place. */
  get repeats(): boolean {
    return this.distinct < this.nodes.length;
  }

  /** The nodes at these places. */
  at(places: NodeSet): NodeSet {
    if (this.plain) return places;
    let nodes: NodeSet = NO_NODES;
    for (let place = 0; place < this.nodes.length; place++) {
      if (has(places, place)) nodes = union(nodes, oneNode(this.nodes[place] ?? 0));
    }
    return nodes;
  }

  /** How many of these nodes are on the list, each counted once for every place that it has. */
  countOf(nodes: NodeSet): number {
    const listed = (nodes & this.own) as NodeSet;
    if (!this.repeats) return size(listed);
    return this.nodes.filter((node) => has(listed, node)).length;
  }
}

/** By the names that they were made of, which are often those of a schedule or a search. */
const NAMED = new WeakMap<readonly ProcessName[], NodeList>();

/** By the size of the cluster. A list never changes, and to make one takes as long as some dozen events. */
const ALL: (NodeList | undefined)[] = [];
