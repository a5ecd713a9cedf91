import { describe, expect, it } from 'vitest';
import { allNodes, oneNode } from './index.js';
import { heldLock, ms, TestLock } from './testing/lock.js';

describe('the start of an acquisition', () => {
  it('sends the SET to every node at once, with the token given and the whole TTL', () => {
    const lock = new TestLock().at(7).acquire(10_000);
    expect(lock.effects).toEqual([
      {
        type: 'send',
        to: allNodes(5),
        command: { operation: 'acquire', attempt: 0, round: 0, token: 'token-0', ttlMs: 10_000, counter: 0 },
      },
      { type: 'arm', timer: 'attempt', at: ms(57) },
    ]);
    expect(lock.state).toMatchObject({
      phase: 'acquiring',
      electorate: { nodes: 5, needed: 3, wanted: 3 },
      ttlMs: 10_000,
    });
  });

  it('waits for ever where there is no node time-out', () => {
    const lock = new TestLock({ settings: { nodeTimeoutUs: null } }).acquire();
    expect(lock.armed.size).toBe(0);
    expect(lock.at(2).yes(0, 1, 2).effects).not.toContainEqual({ type: 'cancel', timer: 'attempt' });
    const failed = new TestLock({ settings: { nodeTimeoutUs: null } }).acquire().no(0, 1, 2);
    expect(failed.effects).not.toContainEqual({ type: 'cancel', timer: 'attempt' });
  });

  it('happens once for one lock', () => {
    const lock = heldLock();
    const held = lock.state;
    lock.acquire();
    expect(lock.effects).toEqual([]);
    expect(lock.state).toEqual(held);
  });
});

describe('a claim', () => {
  it('is made at the quorum and lasts until T1 + TTL - D, however long the votes took', () => {
    const lock = new TestLock().at(5).acquire(10_000).at(40).yes(4, 1);
    expect(lock.phase).toBe('acquiring');
    lock.at(49).yes(3);
    expect(lock.effects).toEqual([
      { type: 'cancel', timer: 'attempt' },
      { type: 'arm', timer: 'expiry', at: ms(9_903) },
      {
        type: 'report',
        outcome: {
          type: 'acquired',
          deadline: ms(9_903),
          votes: { granted: oneNode(1) + oneNode(3) + oneNode(4), refused: 0, failed: 0, quorum: 3 },
          fence: null,
        },
      },
    ]);
    expect(lock.state).toMatchObject({ phase: 'held', hold: { deadline: ms(9_903), extensions: 0 } });
  });

  it('needs the quorum, not one vote fewer', () => {
    expect(new TestLock().acquire().no(0, 1).yes(2, 3).phase).toBe('acquiring');
    expect(new TestLock().acquire().no(0, 1).yes(2, 3, 4).phase).toBe('held');
    expect(new TestLock({ deviations: ['quorum:2'] }).acquire().yes(2, 3).phase).toBe('held');
  });

  it('counts a node once, however often its answer comes', () => {
    expect(new TestLock().acquire().yes(0, 0, 0, 1, 1).phase).toBe('acquiring');
    expect(new TestLock().acquire().no(0, 0, 0).error(1, 1, 1).phase).toBe('acquiring');
  });

  it('counts neither an error nor silence as a vote', () => {
    const lock = new TestLock().acquire().error(0).yes(1, 2).at(50).fire('attempt');
    expect(lock.phase).toBe('waiting');
    expect(lock.votes()).toEqual({ granted: [1, 2], refused: [], failed: [0, 3, 4] });
  });

  it.each([
    [[], 97, 'waiting'],
    [[], 96.999, 'held'],
    [['zero-is-valid'], 97, 'held'],
    [['zero-is-valid'], 97.001, 'waiting'],
    [['validity-unchecked'], 500, 'held'],
  ] as const)('deviating by %j with its quorum at %d ms of a TTL of 100 ends %s', (deviations, time, phase) => {
    expect(new TestLock({ deviations }).acquire(100).at(time).yes(0, 1, 2).phase).toBe(phase);
  });

  it('that would be too short is not made: the attempt fails and is cleaned up', () => {
    const lock = new TestLock({ settings: { minValidityUs: 50_000, tries: 1 } }).acquire(100).at(47.001).yes(0, 1, 2);
    expect(lock.outcome).toMatchObject({ type: 'failed', reason: 'too-slow' });
    expect(lock.sent).toMatchObject([{ operation: 'release', to: [0, 1, 2, 3, 4] }]);
    expect(new TestLock({ settings: { minValidityUs: 50_000 } }).acquire(100).at(47).yes(0, 1, 2).phase).toBe('held');
  });

  it.each([
    ['attempt', [], 1_000 + 9_898],
    ['call', ['counts-from-call'], 10 + 9_898],
    ['reply', ['counts-from-reply'], 1_030 + 9_898],
  ] as const)('counts its validity from the %s, deviating by %j', (_, deviations, deadline) => {
    const lock = new TestLock({ deviations }).at(10).acquire().no(0, 1, 2);
    lock.at(1_000).fire('retry').at(1_030).yes(0, 1, 2);
    expect(lock.state.hold.deadline).toBe(ms(deadline));
  });

  it('does not lose its deadline to a TTL of a thousand years', () => {
    const lock = new TestLock().acquire(31_557_600_000_000).at(2).yes(0, 1, 2);
    expect(lock.phase).toBe('held');
    expect(lock.state.hold.deadline).toBe(2 ** 52);
  });

  it('keeps gathering the votes still on their way, since more of them tolerate more nodes with data loss', () => {
    const lock = heldLock().at(30).yes(3).no(4);
    expect(lock.effects).toEqual([]);
    expect(lock.votes()).toEqual({ granted: [0, 1, 2, 3], refused: [4], failed: [] });
    lock.at(9_898).fire('expiry').yes(4);
    expect(lock.votes().granted).toEqual([0, 1, 2, 3, 4]);
  });
});

describe('what a node answers twice', () => {
  it('stays a yes, since a duplicated SET finds the own key', () => {
    const lock = new TestLock().acquire().yes(0).no(0).error(0);
    expect(lock.votes()).toEqual({ granted: [0], refused: [], failed: [] });
    expect(lock.no(1, 2).phase).toBe('acquiring');
    expect(lock.yes(3, 4).phase).toBe('held');
  });

  it('is in one set only, that of the last answer', () => {
    const lock = new TestLock().acquire().error(0, 1).no(0).yes(1).no(2).yes(2).no(3).error(3);
    expect(lock.votes()).toEqual({ granted: [1, 2], refused: [0], failed: [3] });
  });

  it('counts once towards a failure too', () => {
    const lock = new TestLock({ settings: { nodeTimeoutUs: null }, deviations: ['settles-by-quorum-only'] })
      .acquire()
      .error(0)
      .no(0)
      .error(0)
      .no(1);
    expect(lock.phase).toBe('acquiring');
    expect(lock.no(2).phase).toBe('waiting');
  });
});

describe('early settlement', () => {
  it('fails at the vote that puts the quorum out of reach, without waiting for a hanging node', () => {
    const lock = new TestLock().acquire().at(2).yes(0).no(1, 2);
    expect(lock.phase).toBe('acquiring');
    expect(lock.no(3).phase).toBe('waiting');
  });

  it('settles a tie at once instead of waiting for the time-out', () => {
    const lock = new TestLock({}, 4).acquire().at(2).yes(0, 1).no(2);
    expect(lock.phase).toBe('acquiring');
    expect(lock.no(3).phase).toBe('waiting');
    expect(lock.armed.has('attempt')).toBe(false);
  });

  it('takes errors for what they are: votes that will not come', () => {
    expect(new TestLock().acquire().error(0, 1).phase).toBe('acquiring');
    expect(new TestLock().acquire().error(0, 1, 2).phase).toBe('waiting');
  });

  it('gives up on a quorum larger than the cluster at the first answer', () => {
    expect(new TestLock({ settings: { votesWanted: 'all' }, deviations: ['quorum:6'] }).acquire().yes(0).phase).toBe(
      'waiting',
    );
  });
});

describe('waiting for more votes than the quorum', () => {
  it('takes the lock when the votes wanted are in', () => {
    const lock = new TestLock({ settings: { votesWanted: 4 } }).acquire().at(2).yes(0, 1, 2);
    expect(lock.phase).toBe('acquiring');
    expect(lock.yes(3).phase).toBe('held');
  });

  it('takes it with fewer as soon as everybody has answered', () => {
    const lock = new TestLock({ settings: { votesWanted: 'all' } }).acquire().at(2).yes(0, 1, 2).no(3);
    expect(lock.phase).toBe('acquiring');
    expect(lock.error(4).phase).toBe('held');
    expect(lock.votes()).toEqual({ granted: [0, 1, 2], refused: [3], failed: [4] });
  });

  it('takes it with fewer once the silent nodes have timed out', () => {
    const lock = new TestLock({ settings: { votesWanted: 'all' } }).acquire().at(2).yes(0, 1, 2);
    expect(lock.at(50).fire('attempt').phase).toBe('held');
    expect(lock.state.hold.deadline).toBe(ms(9_898));
  });

  it('does not wait for them once a quorum is impossible', () => {
    expect(new TestLock({ settings: { votesWanted: 'all' } }).acquire().no(0, 1, 2).phase).toBe('waiting');
  });
});

describe('settling when all have answered', () => {
  it('waits for the last answer, whether for or against', () => {
    const lock = new TestLock({ deviations: ['settles-with-all', 'release-awaits-all'] })
      .acquire()
      .at(2)
      .yes(0, 1, 2, 3);
    expect(lock.phase).toBe('acquiring');
    expect(lock.no(4).phase).toBe('held');
    const refused = new TestLock({ deviations: ['settles-with-all', 'release-awaits-all'] })
      .acquire()
      .at(2)
      .no(0, 1, 2, 3);
    expect(refused.phase).toBe('acquiring');
    expect(refused.yes(4).phase).toBe('waiting');
  });

  it('takes a time-out for an answer', () => {
    const lock = new TestLock({ deviations: ['settles-with-all', 'release-awaits-all'] }).acquire().yes(0, 1, 2);
    expect(lock.at(50).fire('attempt').phase).toBe('held');
  });
});

describe('settling only when one side has a quorum', () => {
  it('never ends a tie, not even by its time-out', () => {
    const lock = new TestLock({ deviations: ['settles-by-quorum-only'] }, 4).acquire().yes(0, 1).no(2, 3);
    expect(lock.phase).toBe('acquiring');
    lock.at(50).fire('attempt');
    expect(lock.phase).toBe('acquiring');
    expect(lock.armed.size).toBe(0);
  });

  it('ends at a quorum of yes, of no, and of no with errors', () => {
    expect(new TestLock({ deviations: ['settles-by-quorum-only'] }).acquire().no(3, 4).yes(0, 1, 2).phase).toBe('held');
    expect(new TestLock({ deviations: ['settles-by-quorum-only'] }).acquire().yes(3, 4).no(0, 1, 2).phase).toBe(
      'waiting',
    );
    expect(new TestLock({ deviations: ['settles-by-quorum-only'] }).acquire().no(0, 1).error(2).phase).toBe('waiting');
  });
});

describe('sequential sending', () => {
  const sequential = { settings: { nodeTimeoutUs: 50_000 }, deviations: ['asks-in-turn'] } as const;

  it('asks the next node when the one before has answered, and no further once it has the quorum', () => {
    const lock = new TestLock(sequential).acquire();
    expect(lock.sent).toMatchObject([{ to: [0] }]);
    expect(lock.at(2).yes(0).sent).toMatchObject([{ operation: 'acquire', to: [1], attempt: 0 }]);
    expect(lock.at(4).no(1).sent).toMatchObject([{ to: [2] }]);
    expect(lock.at(6).error(2).sent).toMatchObject([{ to: [3] }]);
    expect(lock.at(8).yes(3).sent).toMatchObject([{ to: [4] }]);
    expect(lock.at(10).yes(4).sent).toEqual([]);
    expect(lock.phase).toBe('held');
    const lucky = new TestLock(sequential).acquire().yes(0).yes(1);
    expect(lucky.yes(2).sent).toEqual([]);
  });

  it('gives each node its own time-out', () => {
    const lock = new TestLock(sequential).acquire();
    expect(lock.armed.get('attempt')).toBe(50);
    lock.at(2).yes(0);
    expect(lock.armed.get('attempt')).toBe(52);
    lock.at(52).fire('attempt');
    expect(lock.sent).toMatchObject([{ to: [2] }]);
    expect(lock.armed.get('attempt')).toBe(102);
    expect(lock.votes()).toEqual({ granted: [0], refused: [], failed: [1] });
  });

  it('has one node to wait for: a late answer of an earlier one counts, but sends nothing', () => {
    const lock = new TestLock(sequential).acquire().at(50).fire('attempt').at(60).yes(0);
    expect(lock.sent).toEqual([]);
    expect(lock.votes()).toEqual({ granted: [0], refused: [], failed: [] });
    lock.at(61).yes(1);
    expect(lock.at(62).yes(2).phase).toBe('held');
  });

  it('stops at the node that puts the quorum out of reach', () => {
    const lock = new TestLock(sequential).acquire().no(0).no(1);
    expect(lock.no(2).phase).toBe('waiting');
    expect(lock.sent).toEqual([{ operation: 'release', to: [0, 1, 2, 3, 4], attempt: 0, round: 0 }]);
  });

  it('begins at the first node in every attempt', () => {
    const lock = new TestLock(sequential).acquire().yes(0).no(1).no(2).no(3).at(200).fire('retry');
    expect(lock.sent).toEqual([{ operation: 'acquire', to: [0], attempt: 1, round: 0 }]);
    expect(lock.at(202).yes(0).sent).toMatchObject([{ to: [1] }]);
    expect(lock.at(252).fire('attempt').votes()).toEqual({ granted: [0], refused: [], failed: [1] });
  });

  it('has nobody left to ask in a tie that is never settled', () => {
    const lock = new TestLock({ ...sequential, deviations: ['asks-in-turn', 'settles-by-quorum-only'] }, 2)
      .acquire()
      .yes(0);
    expect(lock.no(1).sent).toEqual([]);
    expect(lock.phase).toBe('acquiring');
  });

  it('asks on for more votes where more are wanted, and asks all where all must answer', () => {
    const wanting = new TestLock({ ...sequential, settings: { votesWanted: 4 } }).acquire().yes(0).yes(1).yes(2);
    expect(wanting.sent).toMatchObject([{ to: [3] }]);
    const patient = new TestLock({ ...sequential, deviations: ['asks-in-turn', 'settles-with-all'] })
      .acquire()
      .no(0)
      .no(1)
      .no(2)
      .no(3);
    expect(patient.sent).toMatchObject([{ to: [4] }]);
  });
});

describe('the reason of a failure', () => {
  it.each([
    ['contended', [0, 1, 2], []],
    ['contended', [0], [1, 2]],
    ['contended', [0, 1], [2]],
    ['unreachable', [], [0, 1, 2]],
    ['unreachable', [3], [0, 1, 2]],
  ] as const)('is %s with %j refusing and %j failing: unreachable means too few answers', (reason, no, failing) => {
    const lock = new TestLock({ settings: { tries: 1 }, deviations: ['settles-with-all', 'release-awaits-all'] })
      .acquire()
      .no(...no)
      .error(...failing);
    const rest = [0, 1, 2, 3, 4].filter((node) => ![...no, ...failing].some((other) => other === node));
    lock.yes(...rest);
    expect(lock.outcome).toMatchObject({ type: 'failed', reason, attempts: 1 });
  });

  it('counts the silent nodes at the time-out as unreachable', () => {
    const lock = new TestLock({ settings: { tries: 1 } }).acquire().yes(0, 1).at(50).fire('attempt');
    expect(lock.outcome).toMatchObject({ reason: 'unreachable', votes: { failed: 0b11100, granted: 0b00011 } });
  });
});
