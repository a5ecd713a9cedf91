import { describe, expect, it } from 'vitest';
import type { Fate, Fault } from '../scenarios/index.js';
import { simulate } from './simulate.js';
import { lock, type Parts, schedule, story, trace } from './testing/schedule.js';

const RESTART: Fault = { kind: 'crash', node: 'n0', atUs: 10_000, restartAfterUs: 1_000 };
const BY_HASH = { nodes: 1, persistence: 'always', scripts: 'by-hash' } as const;

/** c1 takes the lock at 0, and gives it back at 50 ms: a script that the node may not know. */
function released(parts: Parts = {}): Parts {
  return { cluster: BY_HASH, locks: [[lock(0, { holdUs: 48_000 })]], untilUs: 200_000, ...parts };
}

function transport(parts: Parts): string[] {
  return story(parts, 'execute', 'reply', 'no-script', 'lost', 'key-gone').slice(2);
}

describe('a script that goes by its hash', () => {
  it('is known to a process that was there when clients connected', () => {
    expect(transport(released())).toEqual(['51000 n0 execute', '51000 n0 key-gone', '52000 c1 reply']);
  });

  it('is unknown to a new process, which is sent the text: a second round trip', () => {
    expect(transport(released({ faults: [RESTART] }))).toEqual([
      '51000 n0 execute',
      '52000 c1 no-script',
      '53000 n0 execute',
      '53000 n0 key-gone',
      '54000 c1 reply',
    ]);
    // Whole, it needs one.
    const byText = { ...BY_HASH, scripts: 'by-text' } as const;
    expect(transport(released({ cluster: byText, faults: [RESTART] }))).toHaveLength(3);
  });

  it('is known from then on, to all clients, and is not the SET of a single key', () => {
    const locks = [[lock(0, { holdUs: 48_000 }), lock(60_000, { holdUs: 8_000 })]];
    const texts = story(released({ faults: [RESTART], locks }), 'no-script');
    expect(texts).toEqual(['52000 c1 no-script']);
    const two = [[lock(20_000, { resources: ['a', 'b'] })]];
    expect(story(released({ faults: [RESTART], locks: two }), 'no-script')).toEqual(['22000 c1 no-script']);
  });

  it('is unknown to a replica that takes over', () => {
    const failover: Fault = { kind: 'failover', node: 'n0', atUs: 10_000 };
    const cluster = { ...BY_HASH, replicaLagUs: 0 };
    expect(story(released({ cluster, faults: [failover] }), 'no-script')).toEqual(['52000 c1 no-script']);
  });

  it('goes on its way with its text as the next sending, with a fate of its own', () => {
    const text: Fate = {
      client: 'c1',
      operation: 'release',
      node: 'n0',
      direction: 'request',
      send: 1,
      delayUs: 9_000,
    };
    expect(transport(released({ faults: [RESTART], fates: [text] }))).toContain('61000 n0 execute');
    const lost: Fate = { client: 'c1', operation: 'release', node: 'n0', direction: 'request', send: 1, lost: true };
    // It was given up: the key stays until it expires.
    expect(transport(released({ faults: [RESTART], fates: [lost] }))).toEqual([
      '51000 n0 execute',
      '52000 c1 no-script',
      '52000 c1 lost',
    ]);
  });

  it('is refused like any other by a node that refuses it, and is not sent for a client that is dead', () => {
    const refuse: Fault = { kind: 'error-replies', node: 'n0', operations: ['release'], atUs: 40_000, forUs: 100_000 };
    expect(transport(released({ faults: [RESTART, refuse] }))).toEqual(['51000 n0 execute', '52000 c1 reply']);
    const death: Fault = { kind: 'client-crash', client: 'c1', atUs: 51_500 };
    expect(transport(released({ faults: [RESTART, death] }))).toEqual(['51000 n0 execute']);
  });

  it('is sent once, however often the node says that it does not know it', () => {
    const copied: Fate = {
      client: 'c1',
      operation: 'release',
      node: 'n0',
      direction: 'request',
      duplicateDelayUs: 1_500,
    };
    expect(story(released({ faults: [RESTART], fates: [copied] }), 'no-script')).toHaveLength(1);
  });
});

it('that nodes know scripts changes nothing as long as their processes live', () => {
  const hashOf = (scripts: 'by-text' | 'by-hash'): string =>
    simulate(schedule({ cluster: { scripts }, locks: [[lock(0, { holdUs: 48_000 })], [lock(500)]] })).hash;
  expect(hashOf('by-hash')).toBe(hashOf('by-text'));
});

it('the answer of a node that does not know a script is no answer to the lock', () => {
  const events = trace(released({ faults: [RESTART] }));
  const first = events.find(({ kind }) => kind === 'no-script');
  expect(first?.detail).toMatchObject({ operation: 'release', node: 'n0', answer: 'error' });
  expect(events.find(({ cause }) => cause === first?.seq)).toMatchObject({ kind: 'send', process: 'c1' });
});
