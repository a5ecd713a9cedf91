import { describe, expect, it } from 'vitest';
import { InputError } from '../scenarios/input-error.js';
import { acquisitionLines } from './libraries.js';
import { parseSystem } from './parse-system.js';
import { withTtl } from './synthesis.js';

describe('a system', () => {
  it('is read in the form in which people write it', () => {
    const system = parseSystem({
      name: 'orders',
      nodes: [
        { count: 2, persistence: 'everysec', restart: '1s', supervisor: 'systemd' },
        { persistence: 'always', restart: 'by-hand', failover: '100ms', disk: 'lost', evicts: true, powerLoss: false },
      ],
      atOnce: 2,
      clocks: { drift: '0.1%', steps: 'any', clientSteps: '1s' },
      pauses: { process: '2s' },
      network: { least: '100us', most: '20ms' },
      client: { library: 'redsync-4', ttl: '8s', drift: '2%', votesWanted: 'all', guard: '1s' },
      work: { longest: '3s', extends: true },
      resource: { checksToken: true },
      rates: { crashes: 1 },
    });
    expect(system.nodes.map(({ persistence }) => persistence)).toEqual(['everysec', 'everysec', 'always']);
    expect(system.nodes[0]).toMatchObject({ restartUs: 1_000_000, supervisor: 'systemd', diskKept: true });
    expect(system.nodes[2]).toMatchObject({ restartUs: null, failoverLagUs: 100_000, diskKept: false, evicts: true });
    expect(system.clocks).toEqual({ driftPpm: 1_000, nodeStepUs: null, clientStepUs: 1_000_000 });
    expect(system.network).toEqual({ leastUs: 100, mostUs: 20_000, writeUs: 20_000, reordering: true });
    expect(system.client.policy.profile).toBe('redsync-4');
    expect(system.client.policy.settings).toMatchObject({ driftPpm: 20_000, driftUs: 0, votesWanted: 'all' });
    expect(system).toMatchObject({ atOnce: 2, work: { longestUs: 3_000_000, extends: true } });
    expect(system.rates).toEqual({ crashes: 1 });
  });

  it('has defaults that assume the worst of what is not said', () => {
    const system = parseSystem({ nodes: { count: 3 } });
    expect(system).toMatchObject({
      name: '3 nodes, reference',
      atOnce: 3,
      clocks: { driftPpm: 500, nodeStepUs: 0, clientStepUs: 0 },
      network: { leastUs: 0, mostUs: 10_000, writeUs: 10_000 },
      client: { ttlMs: 10_000, clients: 2, guardUs: null },
      work: { longestUs: 5_000_000, extends: false, writes: true },
      resource: { checksToken: false },
    });
    expect(system.nodes[0]).toMatchObject({ persistence: 'none', restartUs: 0, powerLoss: true });
    expect('rates' in system).toBe(false);
  });

  const WRONG: readonly (readonly [unknown, string])[] = [
    [
      {},
      '/nodes: missing; it must be a group of nodes, such as { "count": 3, "persistence": "everysec" }, or a list of such groups',
    ],
    [{ nodes: { count: 40 } }, '/nodes/count: 40 is not a whole number from 1 to 31'],
    [{ nodes: [{ count: 30 }, { count: 2 }] }, '/nodes: 32 nodes are too many; there are at most 31'],
    [
      { nodes: { persistance: 'always' } },
      '/nodes/persistance: not a field of a group of nodes; did you mean "persistence"?',
    ],
    [{ nodes: { persistence: 'allways' } }, '/nodes/persistence: "allways" is unknown; did you mean "always"?'],
    [{ nodes: { restart: 'soon' } }, '/nodes/restart: "soon" is not a duration; write it like 10s, 50ms or 250us'],
    [
      { nodes: {}, client: { ttl: '1.5ms' } },
      '/client/ttl: "1.5ms" is not a whole number of milliseconds from 1 up; write it like 10s or 50ms',
    ],
    [
      { nodes: {}, client: { library: 'redsync-5' } },
      '/client/library: "redsync-5" is not a profile; did you mean "redsync-4"?',
    ],
    [
      { nodes: {}, clocks: { drift: 'much' } },
      '/clocks/drift: "much" is not a percentage from 0 to 100 with at most 4 decimals; write it like 1%',
    ],
    [{ nodes: {}, clocks: { drift: true } }, '/clocks/drift: true is not a percentage, such as "1%"'],
    [[], 'a list is not a system (an object)'],
  ];

  it.each(WRONG)('%j is refused in one sentence', (value, sentence) => {
    expect(() => parseSystem(value)).toThrow(InputError);
    expect(() => parseSystem(value)).toThrow(sentence);
    expect(() => parseSystem(value, 'system.json')).toThrow(`system.json: ${sentence}`);
  });
});

it('has the time-out that a client takes from its TTL, or what is said', () => {
  const timeoutUs = (client: object): number | null => {
    const { policy } = parseSystem({ nodes: { count: 3 }, client }).client;
    return policy.settings.nodeTimeoutUs;
  };
  expect(timeoutUs({ library: 'redsync-4', ttl: '60s' })).toBe(3_000_000);
  expect(timeoutUs({ library: 'redsync-4', ttl: '60s', nodeTimeout: '1s' })).toBe(1_000_000);
  expect(timeoutUs({ library: 'redlock-net', ttl: '60s' })).toBe(1_000_000);
  // What MinValidityTime leaves of the expiry.
  expect(timeoutUs({ library: 'distributed-lock-redis', ttl: '60s', drift: '5%' })).toBe(3_000_000);
  expect(timeoutUs({ library: 'node-redlock-4' })).toBeNull();
  expect(timeoutUs({ library: 'node-redlock-4', nodeTimeout: '200ms' })).toBe(200_000);
});

it('keeps a time-out that was said as the share of the TTL that it is', () => {
  const system = parseSystem({
    nodes: { count: 3 },
    client: { library: 'redsync-4', ttl: '8s', nodeTimeout: '200ms' },
  });
  const longer = withTtl(system, 16_000);
  expect(longer.client.policy.settings.nodeTimeoutUs).toBe(400_000);
  expect(acquisitionLines(longer).join('\n')).toContain('redsync.WithTimeoutFactor(0.025)');
  expect(acquisitionLines(parseSystem({ nodes: {}, client: { library: 'redsync-4' } })).join()).not.toContain(
    'WithTimeoutFactor',
  );
});
