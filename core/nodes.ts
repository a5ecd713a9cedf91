/**
 * A set of node indices (0 to 30) in the bits of one integer: cheap to copy, compare and encode, which is what a
 * state that is copied on every step and interned by an explorer needs.
 */
export type NodeSet = number & { readonly __set: 'nodes' };

/** The most nodes a cluster may have: one bit each in a 31-bit integer. */
export const MOST_NODES = 31;

/** The empty set. */
export const NO_NODES: NodeSet = 0 as NodeSet;

/** The nodes 0 to `n - 1`. */
export function allNodes(n: number): NodeSet {
  return (0x7fffffff >>> (MOST_NODES - n)) as NodeSet;
}

/** The set of one node. */
export function oneNode(node: number): NodeSet {
  return (1 << node) as NodeSet;
}

/** Whether a node is in a set. */
export function has(set: NodeSet, node: number): boolean {
  return (set & (1 << node)) !== 0;
}

/** The nodes of either set. */
export function union(a: NodeSet, b: NodeSet): NodeSet {
  return (a | b) as NodeSet;
}

/** The nodes of the first set that are not in the second. */
export function without(a: NodeSet, b: NodeSet): NodeSet {
  return (a & ~b) as NodeSet;
}

/** How many nodes are in the set. */
export function size(set: NodeSet): number {
  let bits: number = set;
  let count = 0;
  while (bits !== 0) {
    bits &= bits - 1;
    count++;
  }
  return count;
}

/** The members, lowest index first. */
export function members(set: NodeSet): number[] {
  const list: number[] = [];
  for (let rest: number = set; rest !== 0; rest &= rest - 1) list.push(31 - Math.clz32(rest & -rest));
  return list;
}
