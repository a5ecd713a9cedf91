import type { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { type Stream, Streams } from '../sim/index.js';
import { LoneNode } from '../sim/testing/lone-node.js';
import { canRunOnRedis } from './provisioner/for-tests.js';
import { type Provision, provision } from './provisioner/index.js';
import { CASES, play } from './testing/conformance-cases.js';
import { compare, observe } from './testing/conformance-exact.js';
import { ALL, drawAct, drawMoves, KEYS, OWN, playMoves } from './testing/conformance-random.js';
import { rawAnswers } from './testing/conformance-raw.js';
import { RedisTarget, SimTarget, type Target } from './testing/conformance-target.js';
import { loadScripts } from './wire.js';

/** Commands of one random sequence. */
const MOVES = 25;
const prefix = `lockstep:conformance:${process.pid}`;

/** Every case and what the simulated node made of it: what the others are compared with. */
async function simulated(): Promise<string[]> {
  return Promise.all(CASES.map(async (line) => `${line}  ⇒  ${await play(line, new SimTarget())}`));
}

function clientOf(nodes: Provision): Redis {
  const client = nodes.nodes[0]?.client();
  if (client === undefined) throw new Error('no node');
  return client;
}

/** What a node made of the cases, each under keys of its own. */
async function onNode(nodes: Provision): Promise<string[]> {
  const client = clientOf(nodes);
  return Promise.all(
    CASES.map(async (line, i) => `${line}  ⇒  ${await play(line, new RedisTarget(client, `${prefix}:${i}`))}`),
  );
}

test('the simulated node answers the fixed cases as reviewed', async () => {
  expect(CASES.length).toBeGreaterThanOrEqual(75);
  expect(new Set(CASES).size).toBe(CASES.length);
  expect((await simulated()).join('\n')).toMatchSnapshot();
});

// It loses a key that is set over one that expired since anybody looked, which only unsound policies do.
test('ioredis-mock differs from that in these cases', async () => {
  await using mock = await provision({ nodes: 1, sources: ['mock'] });
  const [expected, found] = await Promise.all([simulated(), onNode(mock)]);
  expect(found.filter((line, i) => line !== expected[i])).toMatchSnapshot();
});

/** Sequences in which a node and the simulated one came to different answers or keys. */
async function differences(
  seed: string,
  sequences: number,
  pipelined: boolean,
  target: (i: number) => Target,
): Promise<unknown[]> {
  const found: unknown[] = [];
  const streams = new Streams(seed);
  const playBoth = async (stream: Stream, i: number): Promise<void> => {
    const moves = drawMoves(stream, pipelined ? ALL : OWN, MOVES);
    const [expected, real] = await Promise.all([
      playMoves(moves, new SimTarget(), true),
      playMoves(moves, target(i), pipelined),
    ]);
    if (JSON.stringify(real) !== JSON.stringify(expected)) found.push({ moves, expected, real });
  };
  const atOnce = pipelined ? 50 : 1;
  for (let from = 0; from < sequences; from += atOnce) {
    await Promise.all(Array.from({ length: atOnce }, (_, i) => playBoth(streams.stream(from + i, 0), from + i)));
  }
  return found;
}

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

test('a node that ignores NX, or whose extension makes keys anew, would be noticed', async () => {
  for (const planted of ['no-nx', 'own-or-missing'] as const) {
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

describe.skipIf(!canRunOnRedis('conformance of the simulated node'))('a real node', () => {
  let nodes: Provision;

  beforeAll(async () => {
    nodes = await provision({ nodes: 1 });
  });
  afterAll(async () => {
    await nodes?.stop();
  });

  test('does in every fixed case what the simulated node does', async () => {
    expect(await onNode(nodes)).toEqual(await simulated());
  });

  test('answers commands around those of a lock, of which ioredis-mock answers these in other ways', async () => {
    await using mock = await provision({ nodes: 1, sources: ['mock'] });
    const real = await rawAnswers(clientOf(nodes), `${prefix}:raw`);
    const mocked = await rawAnswers(clientOf(mock), `${prefix}:raw`);
    const different = real.flatMap((line, i) => (line === mocked[i] ? [] : `${line}, mock${mocked[i]?.split('⇒')[1]}`));
    expect(different).toMatchSnapshot();
  });

  test('does in 100 000 random commands what the simulated node does', async () => {
    const client = clientOf(nodes);
    await loadScripts(client);
    expect(await differences('wire', 100_000 / MOVES, true, (i) => new RedisTarget(client, `${prefix}:r${i}`))).toEqual(
      [],
    );
  });

  test('does so to the millisecond, in random commands on keys that live for a few', async () => {
    const stream = new Streams('exact').stream(0, 0);
    const acts = Array.from({ length: 50_000 }, () => drawAct(stream, ALL, () => 1 + stream.below(6)));
    const observations = await observe(clientOf(nodes), `${prefix}:exact`, KEYS, acts);
    const { compared, lastMoments, differences } = compare(new LoneNode(), KEYS, observations);
    expect(differences).toEqual([]);
    expect(compared).toBeGreaterThan(acts.length / 4);
    expect(lastMoments).toBeGreaterThan(100);
    // What this would notice: a node whose keys go a millisecond too early.
    expect(compare(new LoneNode('at'), KEYS, observations).differences.length).toBeGreaterThan(100);
  });
});
