import { describe, expect, it } from 'vitest';
import { allNodes, NO_NODES, type NodeSet, oneNode } from './nodes.js';
import { answered, copyTally, counted, NO_ANSWERS, type Tally, timedOut, votesOf, withdraw } from './tally.js';

function set(...nodes: number[]): NodeSet {
  return nodes.reduce((bits, node) => bits | oneNode(node), 0) as NodeSet;
}

const SOME: Tally = { yes: set(0, 1), no: set(2), failed: set(3) };

describe('a tally', () => {
  it('counts each answer under its node, and leaves the one before as it was', () => {
    let tally = NO_ANSWERS;
    for (const [node, answer] of ['yes', 'no', 'error', 'yes'].entries()) {
      tally = counted(tally, node, answer as 'yes' | 'no' | 'error');
    }
    expect(tally).toEqual({ yes: set(0, 3), no: set(1), failed: set(2) });
    expect(NO_ANSWERS).toEqual({ yes: NO_NODES, no: NO_NODES, failed: NO_NODES });
  });

  it('keeps a yes against every later answer, and takes the last of the others', () => {
    expect(counted(SOME, 0, 'no')).toEqual(SOME);
    expect(counted(SOME, 1, 'error')).toEqual(SOME);
    expect(counted(SOME, 2, 'error')).toEqual({ yes: set(0, 1), no: NO_NODES, failed: set(2, 3) });
    expect(counted(SOME, 3, 'no')).toEqual({ yes: set(0, 1), no: set(2, 3), failed: NO_NODES });
    expect(counted(counted(SOME, 2, 'yes'), 3, 'yes')).toEqual({ yes: allNodes(4), no: NO_NODES, failed: NO_NODES });
  });

  it('counts nodes that were asked and are silent as failed when the time is up, and no others', () => {
    expect(timedOut(SOME, set(0, 1, 2, 3, 5))).toEqual({ ...SOME, failed: set(3, 5) });
    expect(timedOut(NO_ANSWERS, NO_NODES)).toEqual(NO_ANSWERS);
  });

  it('forgets the answers of nodes that are asked again', () => {
    const tally = copyTally(SOME);
    withdraw(tally, set(1, 2, 3, 4));
    expect(tally).toEqual({ yes: set(0), no: NO_NODES, failed: NO_NODES });
  });

  it('says who has answered, and tells owners in the words of votes', () => {
    expect(answered(SOME)).toBe(allNodes(4));
    expect(votesOf(SOME, 3)).toEqual({ granted: set(0, 1), refused: set(2), failed: set(3), quorum: 3 });
  });
});
