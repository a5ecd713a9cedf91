import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import type { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { lockstep } from '../../cli/testing/in-process.js';
import { verifyHistory } from '../../properties/history/verify.js';
import { replaySteps } from '../history/index.js';
import { type Provision, provision } from '../provisioner/index.js';
import { canRunOnRedis } from '../testing/can-run.js';
import { type Recording, Redlock } from './index.js';

const prefix = `lockstep:recording:${process.pid}`;
let taken = 0;
const fresh = (): string => `${prefix}:${taken++}`;
const linesOf = (text: string): string[] => text.split('\n').filter((line) => line !== '');
const typesOf = (recording: Recording): string[] => linesOf(recording.history()).map((line) => JSON.parse(line).type);
const replayed = (recording: Recording) => replaySteps(linesOf(recording.steps()));

test.each([
  [{}, 'record needs { client }'],
  [{ client: '' }, 'record needs { client }'],
  [{ client: 'a', maxEntries: 999 }, 'maxEntries is 999'],
  [{ client: 'a', steps: 1 }, 'steps is 1'],
  [{ client: 'a', nowUs: 1 }, 'nowUs is 1'],
  [{ client: 'a', errorUs: -1 }, 'errorUs is -1'],
])('the options %o are refused', async (options, message) => {
  await using redlock = new Redlock(['redis://127.0.0.1:1']);
  expect(() => redlock.record(options as { client: string })).toThrow(message);
});

describe.skipIf(!canRunOnRedis('recording on five real nodes', 'processes'))('a recorded lock', () => {
  let nodes: Provision;
  let clients: Redis[];
  beforeAll(async () => {
    nodes = await provision({ nodes: 5, sources: ['processes'] });
    clients = nodes.nodes.map((node) => node.client());
  });
  afterAll(() => nodes?.stop());

  test('has a history that passes, and steps with the same effects when they are replayed', async () => {
    const resource = fresh();
    const tokens: string[] = [];
    const worker = async (client: string, settings: object): Promise<Recording> => {
      await using redlock = new Redlock(clients, { retryCount: -1, retryDelay: 5, retryJitter: 4, ...settings });
      if (client === 'c3') await redlock.recoverFencing(0);
      const recording = redlock.record({ client, steps: true });
      for (let turn = 0; turn < 8; turn++) {
        const lock = await redlock.acquire(turn % 4 === 0 ? [resource, fresh()] : resource, 5_000);
        tokens.push(lock.value);
        if (turn % 3 === 0) await lock.extend(8_000);
        await lock.release();
      }
      await redlock.using(resource, 400, { automaticExtensionThreshold: 300 }, (_, lock) => {
        tokens.push(lock.value);
        return sleep(600);
      });
      await redlock.tryAcquire(resource, 5_000, { fencing: false }).then((lock) => lock?.release());
      return recording;
    };
    const settings = [{}, { healing: true }, { fencing: true }];
    const recordings = await Promise.all(settings.map((it, i) => worker(`c${i + 1}`, it)));
    const history = recordings.map((recording) => recording.history()).join('');
    expect(verifyHistory(history.split('\n'))).toMatchObject({ verdict: 'passed', violations: [], doubts: [] });
    for (const recording of recordings) {
      const types = typesOf(recording);
      for (const type of ['acquire', 'acquired', 'extend', 'extended', 'release', 'released'])
        expect(types).toContain(type);
      expect(replayed(recording)).toMatchObject({ locks: expect.any(Number), differences: [] });
      expect(replayed(recording).events).toBeGreaterThan(100);
      for (const token of tokens) expect(recording.history() + recording.steps()).not.toContain(token);
    }
    expect(history).toContain('"fencingToken":{"counter":1,"attempt":"');
  });

  test('tells how each call ended', async () => {
    await using redlock = new Redlock(clients, { retryCount: 0 });
    const recording = redlock.record({ client: 'c1' });
    const resource = fresh();
    const lock = await redlock.acquire(resource, 5_000);
    expect(await redlock.tryAcquire(resource, 5_000)).toBeNull();
    await lock.extend(9_000);
    await lock.release();
    const short = await redlock.acquire(resource, 50);
    await sleep(60);
    await expect(short.extend(5_000)).rejects.toThrow();
    await short.release();
    recording.stop();
    await (await redlock.acquire(resource, 5_000)).release();
    expect(typesOf(recording).join(' ')).toBe(
      'acquire acquired extend extended release released acquire failed ' +
        'acquire acquired extend not-extended release released',
    );
    expect(verifyHistory(linesOf(recording.history())).verdict).toBe('passed');
    expect(recording.steps()).toBe('');
  });

  test('is seen to be held twice where a majority of the nodes forgets', async () => {
    await using one = new Redlock(clients);
    await using two = new Redlock(clients, { retryCount: 50, retryDelay: 50 });
    const [first, second] = [one.record({ client: 'c1', steps: true }), two.record({ client: 'c2', steps: true })];
    const resource = fresh();
    const lock = await one.acquire(resource, 30_000);
    for (const node of nodes.nodes.slice(0, 3)) await node.restart({ keepData: false });
    const other = await two.acquire(resource, 30_000);
    await Promise.all([lock.release(), other.release()]);
    const { verdict, violations } = verifyHistory(linesOf(first.history() + second.history()));
    expect(verdict).toBe('violated');
    expect(violations).toMatchObject([{ property: 'mutual-exclusion', resource }]);
    expect([replayed(first).differences, replayed(second).differences]).toEqual([[], []]);
  });

  test('takes no more than it may, by whole locks, and by the past of one that is held for long', async () => {
    await using redlock = new Redlock(clients);
    const recording = redlock.record({ client: 'c1', steps: true, maxEntries: 1_000 });
    const held = fresh();
    const long = await redlock.acquire(held, 60_000);
    for (let i = 0; i < 30; i++) await long.extend(60_000 + i);
    for (let i = 0; i < 60; i++) await (await redlock.acquire(fresh(), 5_000)).release();
    await long.release();
    expect(recording.dropped).toBeGreaterThan(10);
    const steps = linesOf(recording.steps()).map((line) => JSON.parse(line));
    const entries = steps.reduce((sum, { entries }) => sum + entries.length, 0);
    expect(entries + linesOf(recording.history()).length).toBeLessThanOrEqual(1_000);
    // It was begun first, and is there all the same: what has ended makes room before what is held.
    expect(steps[0]).toMatchObject({ lock: 'c1/0', resources: [held], from: { phase: 'held' } });
    const [called, acquired] = linesOf(recording.history()).map((line) => JSON.parse(line));
    expect([called, acquired]).toMatchObject([
      { type: 'acquire', lock: 'c1/0', resources: [held] },
      { type: 'acquired', lock: 'c1/0' },
    ]);
    expect(acquired.validUs).toBeLessThanOrEqual(called.ttlMs * 1000);
    expect(verifyHistory(linesOf(recording.history()))).toMatchObject({ verdict: 'passed', doubts: [] });
    expect(replayed(recording)).toMatchObject({ locks: steps.length, differences: [] });
  });

  test('that waits for long takes no more than its share', async () => {
    await using redlock = new Redlock(clients, { retryCount: 60, retryDelay: 2, retryJitter: 1 });
    await using _held = await redlock.acquire('waited', 60_000);
    const recording = redlock.record({ client: 'c1', steps: true, maxEntries: 1_000 });
    await expect(redlock.acquire('waited', 5_000)).rejects.toThrow();
    const [steps] = linesOf(recording.steps()).map((line) => JSON.parse(line));
    expect(steps).toMatchObject({ from: { phase: 'waiting' } });
    expect(steps.entries.length).toBeLessThan(200);
    expect(typesOf(recording)).toEqual(['acquire', 'failed']);
    expect(replayed(recording)).toMatchObject({ locks: 1, differences: [] });
  });

  test('is found out by the replay where an effect was another', async () => {
    await using redlock = new Redlock(clients);
    const recording = redlock.record({ client: 'c1', steps: true });
    await (await redlock.acquire(fresh(), 5_000)).release();
    const steps = recording.steps();
    const refused = steps.replace('"answer":"yes"', '"answer":"no"').replace('"answer":"yes"', '"answer":"no"');
    const lost = refused.replace('"answer":"yes"', '"answer":"no"');
    expect(replaySteps([lost]).differences).toMatchObject([{ lock: 'c1/0' }]);
    expect(() => replaySteps(['{'])).toThrow('line 1: it is not JSON');
    expect(() => replaySteps(['{"schema":"lockstep.steps/2"}'])).toThrow('/schema must be "lockstep.steps/1"');
  });

  test('is what the README shows', async () => {
    const text = readFileSync(new URL('README.md', import.meta.url), 'utf8');
    const [, example = ''] = /^## Record\n.*?```js\n(.*?)```/ms.exec(text) ?? [];
    expect(example.trim().split('\n').length).toBeLessThanOrEqual(10);
    const folder = mkdtempSync(join(tmpdir(), 'lockstep-recording-'));
    const { lock, urls } = { lock: new URL('dist/index.js', import.meta.url).href, urls: JSON.stringify(nodes.urls) };
    const program = example
      .replace("'lockstep-redlock'", `'${lock}'`)
      .replace('process.env.REDIS_URLS', `'${JSON.parse(urls).join(',')}'`)
      .replaceAll("writeFileSync('", `writeFileSync('${folder}/`);
    const module = join(folder, 'example.mjs');
    writeFileSync(module, program);
    await import(/* @vite-ignore */ pathToFileURL(module).href);
    const history = readFileSync(join(folder, 'worker-1.jsonl'), 'utf8');
    expect(verifyHistory(linesOf(history))).toMatchObject({ verdict: 'passed', operations: 2 });
    expect(await lockstep(['verify', join(folder, 'worker-1.jsonl')])).toMatchObject({ code: 0, stderr: '' });
    expect(replaySteps(linesOf(readFileSync(join(folder, 'worker-1.steps.jsonl'), 'utf8')))).toMatchObject({
      locks: 1,
      differences: [],
    });
  });
});
