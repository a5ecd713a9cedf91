import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { RandomStreams, StandaloneNode } from '../sim/index.js';
import { loadScripts } from './lock/request.js';
import { type Provision, provision } from './provisioner/index.js';
import { canRunOnRedis } from './testing/can-run.js';
import { CASES } from './testing/conformance-cases.js';
import { casesOnNode, clientOf, differences, MOVES, simulatedCases } from './testing/conformance-differences.js';
import { conformanceDocument } from './testing/conformance-document.js';
import { compare, observe } from './testing/conformance-exact.js';
import { ALL, drawAct, KEYS } from './testing/conformance-random.js';
import { rawAnswers } from './testing/conformance-raw.js';
import { RedisTarget, SimTarget, type Target } from './testing/conformance-target.js';
import { serversHere } from './testing/servers.js';

const prefix = `lockstep:conformance:${process.pid}`;

test('the simulated node answers the fixed cases as reviewed', async () => {
  expect(CASES.length).toBeGreaterThanOrEqual(75);
  expect(new Set(CASES).size).toBe(CASES.length);
  expect((await simulatedCases()).join('\n')).toMatchSnapshot();
});

// It loses a key that is set over one that expired since anybody looked, which only unsound policies do.
test('ioredis-mock differs from that in these cases', async () => {
  await using mock = await provision({ nodes: 1, sources: ['mock'] });
  const [expected, found] = await Promise.all([simulatedCases(), casesOnNode(mock, prefix)]);
  expect(found.filter((line, i) => line !== expected[i])).toMatchSnapshot();
});

test('ioredis-mock differs in no random sequence of the commands of the lock itself', async () => {
  await using mock = await provision({ nodes: 1, sources: ['mock'] });
  const client = clientOf(mock);
  expect(await differences('mock', 50, false, (i) => new RedisTarget(client, `${prefix}:r${i}`))).toEqual([]);
});

test('ioredis-mock lets a key go a millisecond before its server would', async () => {
  await using mock = await provision({ nodes: 1, sources: ['mock'] });
  const [simulated, mocked] = [new SimTarget(), new RedisTarget(clientOf(mock), `${prefix}:ms`)];
  const set = { operation: 'acquire', variant: 'wire', token: 1, keys: ['a'], ttlMs: 5 } as const;
  vi.useFakeTimers({ toFake: ['Date'], now: 1_000_000 });
  try {
    await Promise.all([simulated.perform(set), mocked.perform(set)]);
    await simulated.wait(5);
    vi.setSystemTime(1_000_005);
    expect(await simulated.state(['a'])).toEqual([{ token: '1', ttlMs: 0 }]);
    expect(await mocked.state(['a'])).toEqual([null]);
  } finally {
    vi.useRealTimers();
  }
});

test('a node that ignores NX, or whose extension makes keys again, would be noticed', async () => {
  for (const planted of ['no-nx', 'own-or-missing', 'heals'] as const) {
    const wrong = (): Target => {
      const node = new SimTarget();
      const perform: Target['perform'] = (act) =>
        node.perform(act.variant === 'wire' ? { ...act, variant: planted } : act);
      return {
        perform,
        age: (keys, ms) => node.age(keys, ms),
        wait: (ms) => node.wait(ms),
        state: (keys) => node.state(keys),
      };
    };
    expect((await differences('planted', 50, true, wrong)).length).toBeGreaterThan(10);
  }
});

const canRun = canRunOnRedis('conformance of the simulated node');

describe.skipIf(!canRun).each(serversHere())('$name', ({ start }) => {
  let nodes: Provision;

  beforeAll(async () => {
    nodes = await start();
  });
  afterAll(async () => {
    await nodes?.stop();
  });

  test('does in every fixed case what the simulated node does', async () => {
    expect(await casesOnNode(nodes, prefix)).toEqual(await simulatedCases());
  });

  test('answers commands around those of a lock, of which ioredis-mock answers these in other ways', async () => {
    await using mock = await provision({ nodes: 1, sources: ['mock'] });
    const real = await rawAnswers(clientOf(nodes), `${prefix}:raw`);
    const mocked = await rawAnswers(clientOf(mock), `${prefix}:raw`);
    // The same document for every kind of server; vitest -u writes it.
    await expect(conformanceDocument(real, mocked)).toMatchFileSnapshot('../docs/conformance.md');
  });

  test('does in 100 000 random commands what the simulated node does', async () => {
    const client = clientOf(nodes);
    await loadScripts(client);
    expect(await differences('wire', 100_000 / MOVES, true, (i) => new RedisTarget(client, `${prefix}:r${i}`))).toEqual(
      [],
    );
  });

  test('does so to the millisecond, in random commands on keys that live for a few', async () => {
    const stream = new RandomStreams('exact').stream(0, 0);
    const acts = Array.from({ length: 50_000 }, () => drawAct(stream, ALL, () => 1 + stream.below(6)));
    const observations = await observe(clientOf(nodes), `${prefix}:exact`, KEYS, acts);
    const { compared, lastMoments, differences } = compare(new StandaloneNode(), KEYS, observations);
    expect(differences).toEqual([]);
    expect(compared).toBeGreaterThan(acts.length / 4);
    expect(lastMoments).toBeGreaterThan(100);
    // What this would notice: a node whose keys go a millisecond too early.
    expect(compare(new StandaloneNode('at'), KEYS, observations).differences.length).toBeGreaterThan(100);
  });
});
