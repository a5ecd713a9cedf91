import { describe, expect, it } from 'vitest';
import { allNodes, has, MOST_NODES, members, NO_NODES, oneNode, size, union, without } from './nodes.js';

describe('a set of nodes', () => {
  it('holds the nodes 0 to n - 1, up to the largest cluster', () => {
    expect(members(allNodes(0))).toEqual([]);
    expect(members(allNodes(5))).toEqual([0, 1, 2, 3, 4]);
    expect(size(allNodes(MOST_NODES))).toBe(31);
    expect(members(allNodes(MOST_NODES)).at(-1)).toBe(30);
  });

  it('stays a non-negative integer for the highest node, so that it encodes and compares as one', () => {
    expect(allNodes(MOST_NODES)).toBe(2 ** 31 - 1);
    expect(oneNode(30)).toBe(2 ** 30);
    expect(without(allNodes(MOST_NODES), oneNode(0))).toBe(2 ** 31 - 2);
  });

  it('knows its members and nobody else', () => {
    const set = union(oneNode(1), oneNode(4));
    expect([0, 1, 2, 3, 4, 30].map((node) => has(set, node))).toEqual([false, true, false, false, true, false]);
    expect(members(set)).toEqual([1, 4]);
    expect(has(NO_NODES, 0)).toBe(false);
  });

  it('has a member once', () => {
    expect(union(oneNode(2), oneNode(2))).toBe(oneNode(2));
    expect(size(union(oneNode(2), oneNode(2)))).toBe(1);
  });

  it('unites and subtracts without touching what is on one side only', () => {
    const low = union(oneNode(0), oneNode(1));
    const high = union(oneNode(1), oneNode(2));
    expect(members(union(low, high))).toEqual([0, 1, 2]);
    expect(members(without(low, high))).toEqual([0]);
    expect(without(low, NO_NODES)).toBe(low);
  });

  it('counts like a list does', () => {
    for (let set = 0; set < 512; set++) {
      const nodes = members(set as typeof NO_NODES);
      expect(size(set as typeof NO_NODES)).toBe(nodes.length);
      expect(nodes.map(oneNode).reduce(union, NO_NODES)).toBe(set);
    }
  });
});
