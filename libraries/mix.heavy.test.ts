import { describe, expect, it } from 'vitest';
import type { Library } from './adapters/index.js';
import { MATRIX } from './adapters/index.js';
import { lockFactoryOf } from './lock-factory.js';
import type { MakeLock } from './lock-under-test.js';
import { arranged, canShareKey, type Loaded, mixOf } from './mix.js';
import { replayLibraries } from './run.js';
import { isOfMix, type PairPlan, searchPair, testAlone } from './search/pairs.js';
import { loadLibrary } from './test-library.js';
import { plan, scheduleOf } from './testing/schedules.js';

const load = (id: string): Promise<Loaded> => loadLibrary({ id });

/** c1 holds the lock for 4 s, c2 asks at 1 s. */
const BOTH = scheduleOf([[plan(0, null, { ttlMs: 4_000 })], [plan(1_000_000, null, { ttlMs: 4_000 })]], {
  cluster: { ...scheduleOf([]).cluster, nodes: 1 },
});

/** What is violated, by whom and when, µs. */
async function seen(old: Loaded, joining: Loaded, sameKey: boolean, nodes = 1): Promise<string[]> {
  const mix = mixOf(old, joining, sameKey);
  const schedule = arranged({ ...BOTH, cluster: { ...BOTH.cluster, nodes } }, mix);
  const { violations } = await replayLibraries(mix, schedule);
  return violations.map(({ clients, atUs }) => `${clients.join('+')}@${atUs}`);
}

it('two names of one lock are two locks: the second holds it as its answer comes', async () => {
  const [redlock, other] = [await load('redlock4'), await load('redis-semaphore')];
  expect(await seen(redlock, other, false)).toEqual(['c1+c2@1008000']);
  expect(await seen(other, redlock, false)).toEqual(['c1+c2@1008000']);
  // With one key, and beside itself, it waits.
  expect(await seen(redlock, other, true)).toEqual([]);
  expect(await seen(redlock, redlock, false)).toEqual([]);
});

it('a lock on the first of three nodes stops no majority of the others, and is stopped by one that asked it', async () => {
  const [one, several] = [await load('redislock'), await load('redlock4')];
  expect(await seen(one, several, false, 3)).toEqual(['c1+c2@1008000']);
  expect(await seen(several, one, false, 3)).toEqual([]);
  expect(await seen(one, several, false, 1)).toEqual([]);
});

describe.each(MATRIX)('$id', (library) => {
  it('makes of a name the key that it is said to make', async () => {
    const { run } = await replayLibraries(await load(library.id), BOTH, { trace: true });
    const set = run.trace.find(({ kind }) => kind === 'key-set');
    expect(set?.detail.resource).toBe(library.keyOf?.('a') ?? 'a');
  });
});

it('knows which libraries can be given one key', () => {
  const of = (id: string): Library => MATRIX.find((it) => it.id === id) ?? expect.fail(id);
  expect(canShareKey(of('redlock4'), of('warlock'))).toBe(true);
  expect(canShareKey(of('redlock4'), of('redlock5'))).toBe(false);
  expect(canShareKey(of('redis-lock'), of('warlock'))).toBe(false);
});

const PLAN: PairPlan = { runs: 3, seed: 'mix', nodes: 1, sameKey: false };

async function own(name: string, make: MakeLock): Promise<Loaded> {
  return { ...(await lockFactoryOf(name, make, 500)), library: null };
}

/** Takes every value that is not of its own form for a leftover. */
const version2: MakeLock = ({ nodes: [node] }) => ({
  async acquire(resource, ttlMs) {
    const before = await node.get(resource);
    if (before !== null && !before.startsWith('v2:')) await node.del(resource);
    const set = await node.set(resource, `v2:${Math.random()}`, 'PX', ttlMs, 'NX');
    return set === 'OK' ? { release: () => undefined } : null;
  },
});

/** Sets the key, even if another client has it. */
const overwrites: MakeLock = ({ nodes: [node] }) => ({
  async acquire(resource, ttlMs) {
    await node.set(resource, `v0:${Math.random()}`, 'PX', ttlMs);
    return { release: () => undefined };
  },
});

it('finds that a version deletes what another has left, though it is safe beside itself', async () => {
  const [old, joining] = [await load('redlock4'), await own('version 2', version2)];
  const { withstood } = await testAlone(joining, PLAN);
  expect(withstood).toContain('calm');
  const found = await searchPair(old, joining, (it) => withstood.includes(it), PLAN);
  expect(found).toMatchObject({ verdict: 'unsafe', fault: 'calm', runs: 0 });
  // The other way round nothing is deleted.
  expect(await searchPair(joining, old, (it) => it === 'calm', PLAN)).toMatchObject({ verdict: 'safe', runs: 3 });
});

it('does not blame a mix for what one of the two does alone', async () => {
  const [old, joining] = [await load('redlock4'), await own('overwrites', overwrites)];
  expect(await seen(old, joining, false)).toEqual(['c1+c2@1002000']);
  expect(await isOfMix(mixOf(old, joining, false), BOTH)).toBe(false);
  expect((await testAlone(joining, PLAN)).withstood).not.toContain('calm');
});
