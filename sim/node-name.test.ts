import { describe, expect, it } from 'vitest';
import { MOST_NODES } from '../core/index.js';
import { nodeIndex, nodeName } from './node-name.js';

describe('the name of a node', () => {
  it('is n and its index, and leads back to it', () => {
    expect([0, 7, 30].map(nodeName)).toEqual(['n0', 'n7', 'n30']);
    for (let node = 0; node < MOST_NODES; node++) expect(nodeIndex(nodeName(node))).toBe(node);
  });

  it.each(['', 'n', '3', 'N3', 'c3', 'n-1', 'n1.5', 'n3 ', 'n:', 'n/', 'an3'])('is not %j', (name) => {
    expect(nodeIndex(name)).toBe(-1);
  });
});
