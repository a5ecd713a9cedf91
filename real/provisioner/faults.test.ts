import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { expect, test } from 'vitest';
import { canRun, canRunOnRedis } from '../testing/can-run.js';
import { findFaketime } from './fake-clock.js';
import { ProvisionError, type ProvisionedNode, provision } from './index.js';
import { unpackedServer } from './package.js';

const here = canRunOnRedis('faults of own processes', 'processes');
const noFaketime = findFaketime() === undefined ? 'libfaketime is not installed (apt-get install faketime)' : undefined;
const canFakeTime = canRun('clocks of real nodes', 'faketime', noFaketime) && here;

function first(nodes: readonly ProvisionedNode[]): ProvisionedNode {
  const [node] = nodes;
  if (node === undefined) throw new Error('no node');
  return node;
}

test.skipIf(!here)('a power failure takes what came after the last sync, a kill takes nothing', async () => {
  await using provided = await provision({ nodes: 1, sources: ['processes'], persistence: 'everysec' });
  const node = first(provided.nodes);
  const client = node.client();
  await client.set('before', '1');
  await node.kill();
  await node.restart({ keepData: true });
  expect(await client.get('before')).toBe('1');
  await node.sync();
  await client.mset('after', '1', 'before', '2');
  await node.cutPower();
  await node.restart({ keepData: true });
  expect(await client.mget('before', 'after')).toEqual(['1', null]);
});

test.skipIf(!here)('a power failure takes nothing that a node which writes always has acknowledged', async () => {
  await using provided = await provision({ nodes: 1, sources: ['processes'], persistence: 'always' });
  const node = first(provided.nodes);
  const client = node.client();
  await client.set('a', '1');
  await node.cutPower();
  await node.restart({ keepData: true });
  expect(await client.get('a')).toBe('1');
});

test.skipIf(!here)('without an append-only file there is nothing to sync', async () => {
  await using provided = await provision({ nodes: 1, sources: ['processes'] });
  await expect(first(provided.nodes).sync()).rejects.toThrow('n0 has no append-only file.');
  expect(provided.clocks).toBe(false);
  await expect(first(provided.nodes).setClock({ aheadMs: 1 })).rejects.toThrow(/^The clock of n0 cannot be set/);
});

/** How far the server's clock is ahead of ours, ms, by the quickest of ten answers. */
async function aheadMs(client: Redis): Promise<number> {
  const answers: [took: number, ahead: number][] = [];
  for (let i = 0; i < 10; i++) {
    const before = Date.now();
    const [seconds = 0, micros = 0] = (await client.time()).map(Number);
    const now = Date.now();
    answers.push([now - before, seconds * 1000 + micros / 1000 - (before + now) / 2]);
  }
  return answers.reduce((best, it) => (it[0] < best[0] ? it : best))[1];
}

test.skipIf(!canFakeTime)(
  'the clock of a real server steps, runs fast, and keeps its time over a restart',
  async () => {
    await using provided = await provision({ nodes: 1, sources: ['processes'], clocks: true });
    expect(provided.clocks).toBe(true);
    const node = first(provided.nodes);
    const client = node.client();
    expect(Math.abs(await aheadMs(client))).toBeLessThan(250);
    const before = Date.now();
    await client.set('a', '1', 'PX', 10_000);
    await node.setClock({ aheadMs: 4_000 });
    const left = await client.pttl('a');
    expect(left).toBeLessThan(6_100);
    expect(left).toBeGreaterThan(5_900 - (Date.now() - before));
    await node.setClock({ aheadMs: 12_000 });
    expect(await client.get('a')).toBeNull();
    await node.setClock({ aheadMs: 0, rate: 3 });
    await client.set('b', '1', 'PX', 1_200);
    await sleep(450);
    expect(await client.get('b')).toBeNull();
    // 900 ms ahead at least, as far as the question and its answer let one tell.
    expect(await aheadMs(client)).toBeGreaterThan(600);
    // Another rate goes on from there.
    await node.setClock({ aheadMs: -3_000, rate: 0.5 });
    expect(Math.abs((await aheadMs(client)) + 3_000)).toBeLessThan(250);
    await node.restart({ keepData: false });
    const elapsed = await aheadMs(client);
    expect(elapsed).toBeLessThan(-3_000);
    expect(elapsed).toBeGreaterThan(-3_000 - 2_000);
  },
);

test.skipIf(!here)('the distribution has a package that runs without being installed', async ({ skip }) => {
  const cache = mkdtempSync(join(tmpdir(), 'lockstep-cache-'));
  const env = { ...process.env, XDG_CACHE_HOME: cache, LOCKSTEP_REDIS: '' };
  const program = await unpackedServer(env);
  if (program instanceof ProvisionError) {
    // No apt-get, or no network.
    console.warn(`SKIPPED the distribution's package: ${program.message}`);
    return skip();
  }
  await using provided = await provision({ nodes: 2, sources: ['package'], env });
  expect(provided).toMatchObject({ source: 'package', faults: true });
  const client = first(provided.nodes).client();
  await client.set('a', '1');
  await first(provided.nodes).restart({ keepData: false });
  expect(await client.get('a')).toBeNull();
});

test('where there is no package manager, that is said', async () => {
  const env = { PATH: '', XDG_CACHE_HOME: mkdtempSync(join(tmpdir(), 'lockstep-cache-')) };
  await expect(provision({ nodes: 1, sources: ['package'], env })).rejects.toThrow(
    "The distribution's Redis package cannot be unpacked: there is no apt-get, so this is no Debian or Ubuntu.",
  );
});
