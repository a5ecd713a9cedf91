import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Provision, type ProvisionedNode, provision } from '../../real/provisioner/index.js';
import { canRunOnRedis } from '../../real/testing/can-run.js';
import { mergeParts, partOf } from '../part.js';
import { CampaignRanges } from '../spec.js';
import { type Ended, lockstep, started } from '../testing/command.js';
import { specFor, unitOf } from '../testing/spec.js';
import { QueuedCampaign } from './queue.js';

/** Two hundred ranges; about one schedule in a thousand fails. */
const SEARCH = ['--ttl', '10s', '--faults', 'failover=1,replica-lag=1ms', '--seed', 'campaign'];
const SIZE = ['--runs', '20000', '--range-runs', '100'];
const RANGES = 200;

describe.skipIf(!canRunOnRedis('campaigns over a queue', 'processes'))('a campaign over a queue', () => {
  let provided: Provision;
  let node: ProvisionedNode;
  let alone: Record<string, unknown>;
  const running: ReturnType<typeof started>[] = [];
  let name = '';
  let campaigns = 0;

  beforeAll(async () => {
    alone = comparable(await lockstep('campaign', ...SEARCH, ...SIZE, '--workers', '1', '--json'));
    expect(alone).toMatchObject({ verdict: 'violated', runs: 20_000, ranges: { total: RANGES, done: RANGES } });
  });
  beforeEach(async () => {
    provided = await provision({ nodes: 1, sources: ['processes'], persistence: 'everysec' });
    const [first] = provided.nodes;
    if (first === undefined) throw new Error('there is no node');
    node = first;
    name = `c${campaigns++}`;
  });
  afterEach(async () => {
    for (const { child } of running.splice(0)) child.kill('SIGKILL');
    await provided.stop();
  });

  const flags = (): string[] => ['--queue', node.url, '--name', name];
  const worker = (): ReturnType<typeof started> => {
    const it = started(['campaign', 'work', ...flags(), '--workers', '1', '--json']);
    running.push(it);
    return it;
  };
  const enqueue = (): Promise<Ended> => lockstep('campaign', ...SEARCH, ...SIZE, ...flags(), '--json');
  const status = (): Promise<Ended> => lockstep('campaign', 'status', ...flags(), '--json');

  /** Waits until so many ranges are done. */
  async function done(ranges: number): Promise<void> {
    await using queued = await QueuedCampaign.at({ url: node.url, name });
    while ((await queued.ledger.digests()).size < ranges) await new Promise((resolve) => setTimeout(resolve, 50));
  }

  it('comes to what one process comes to, though workers are killed, join late, and it is put in twice', async () => {
    expect(JSON.parse((await enqueue()).stdout)).toMatchObject({ ranges: RANGES, added: RANGES });
    const [first, second, third] = [worker(), worker(), worker()];
    await done(30);
    first.child.kill('SIGKILL');
    await done(70);
    second.child.kill('SIGKILL');
    expect((await enqueue()).code).toBe(0);
    await done(100);
    const late = worker();
    const ends = await Promise.all([third.end, late.end]);
    for (const { code, stderr } of ends) expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const made = ends.map(({ stdout }): number => JSON.parse(stdout).made);
    expect(Math.min(...made)).toBeGreaterThan(0);
    const end = await status();
    expect(end).toMatchObject({ code: 1, stderr: '' });
    expect(JSON.parse(end.stdout)).toMatchObject({ isOver: true, failed: [], mismatches: 0, unkept: 0 });
    expect(comparable(end)).toEqual(alone);
  });

  it('comes to the same when the server dies in the middle and comes back with its append-only file', async () => {
    await enqueue();
    const workers = [worker(), worker()];
    await done(60);
    await node.kill();
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    await node.restart({ keepData: true });
    for (const { end } of workers) expect(await end).toMatchObject({ code: 0, stderr: '' });
    expect(comparable(await status())).toEqual(alone);
  });

  it('puts jobs back that the queue has lost', async () => {
    await enqueue();
    const client = node.client();
    // All jobs and the list of them, but not what has been entered.
    for (const key of await client.keys('bull:*')) await client.del(key);
    client.disconnect();
    expect(await worker().end).toMatchObject({ code: 0 });
    expect(comparable(await status())).toEqual(alone);
  });

  it('enters a range once, however often it is made, and notices if it comes to something else', async () => {
    await using queued = await QueuedCampaign.at({ url: node.url, name });
    const { ledger } = queued;
    const spec = specFor(4);
    await ledger.open(spec);
    const [first, second] = [0, 1].map((index) => unitOf(spec, new CampaignRanges(spec).at(index)));
    if (first === undefined || second === undefined) throw new Error('there are no ranges');
    for (const unit of [second, first, second, first]) await ledger.commit(unit);
    const part = mergeParts(partOf(spec, first), partOf(spec, second));
    const books = await ledger.read(spec);
    expect(books).toMatchObject({ done: 2, tallies: part.tallies, failures: part.failures, mismatches: 0 });
    await ledger.commit({ ...first, tally: { ...first.tally, hash: '0123456789abcdef' } });
    expect(await ledger.read(spec)).toMatchObject({ done: 2, tallies: part.tallies, mismatches: 1 });
  });

  it('is followed line by line until it is over', async () => {
    await enqueue();
    const log = started(['campaign', 'status', ...flags(), '--follow', '100ms']);
    running.push(log);
    await worker().end;
    const { code, stdout } = await log.end;
    const lines = stdout.split('\n').filter((line) => /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ {2}/.test(line));
    expect(lines.length).toBeGreaterThan(2);
    const ranges = lines.map((line) => Number(/Z {2}(\d+) of 200 ranges, /.exec(line)?.[1]));
    expect(ranges).toEqual(ranges.toSorted((a, b) => a - b));
    expect(code).toBe(1);
    expect(stdout).toContain('The campaign is over.');
  });

  it('has libraries tested by its workers, and comes to what one process comes to', async () => {
    const search = [
      '--libraries',
      'redlock5',
      '--fault-classes',
      'even',
      '--runs',
      '24',
      '--range-runs',
      '6',
      '--json',
    ];
    const here = await lockstep('campaign', ...search, '--workers', '1');
    await lockstep('campaign', ...search, ...flags());
    const ends = await Promise.all([worker().end, worker().end]);
    for (const { code, stderr } of ends) expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(comparable(await status())).toEqual(comparable(here));
    const { violating } = JSON.parse(here.stdout).searches[0];
    expect(violating['deadlock-free']).toBeGreaterThan(0);
    const writing = started(['campaign', 'failures', ...flags()]);
    const { stdout } = await writing.end;
    const [, file = ''] = /^(\S+deadlock-free\S+\.json)/m.exec(stdout) ?? [];
    const argv = ['libraries', '--replay', join(writing.cwd, file), '--only', 'redlock5', '--json'];
    expect(JSON.parse((await lockstep(...argv)).stdout).violations).toContain('hang');
  });

  it('lets a worker leave, with what it has begun', async () => {
    await enqueue();
    const leaving = worker();
    await done(5);
    leaving.child.kill('SIGINT');
    const { code, stdout } = await leaving.end;
    expect(code).toBe(130);
    const { ranges, active } = JSON.parse((await status()).stdout);
    expect(JSON.parse(stdout)).toEqual({
      schema: 'lockstep.campaign-work/1',
      made: ranges.done,
      interrupted: true,
    });
    expect(active).toBe(0);
  });

  it('ends when so many are found', async () => {
    await lockstep('campaign', ...SEARCH, ...SIZE, ...flags(), '--until-found', '2');
    await worker().end;
    const { isOver, searches, ranges } = JSON.parse((await status()).stdout);
    expect(isOver).toBe(true);
    expect(ranges.done).toBeLessThan(RANGES);
    expect(searches[0].violating['mutual-exclusion']).toBeGreaterThanOrEqual(2);
  });

  it('refuses another engine, another campaign of the same name, and a name that is not there', async () => {
    expect(await lockstep('campaign', 'work', ...flags())).toMatchObject({
      code: 64,
      stderr: 'lockstep: --name: there is no campaign of this name on this server\n',
    });
    await enqueue();
    const other = await lockstep('campaign', ...SEARCH, '--runs', '1000', ...flags());
    expect(other).toMatchObject({ code: 64, stderr: expect.stringContaining('with other settings') });
    const client = node.client();
    const key = `lockstep:{${name}}:spec`;
    const spec = JSON.parse((await client.get(key)) ?? '{}');
    await client.set(key, JSON.stringify({ ...spec, engine: '0123456789abcdef' }));
    client.disconnect();
    const skewed = await lockstep('campaign', 'work', ...flags());
    expect(skewed).toMatchObject({ code: 64, stdout: '' });
    expect(skewed.stderr).toContain(`another engine (${spec.engine}) than the campaign (0123456789abcdef)`);
    expect((await enqueue()).stderr).toContain('another engine');
  });

  it('hands out its failures as scenarios that replay', async () => {
    const search = ['--ttl', '10s', '--faults', 'crash=1,partition=1', '--restart-delay', '0'];
    await lockstep('campaign', ...search, '--runs', '400', '--range-runs', '100', ...flags());
    await worker().end;
    const writing = started(['campaign', 'failures', ...flags()]);
    expect((await writing.end).code).toBe(0);
    const folder = join(writing.cwd, '.lockstep/failures');
    const files = existsSync(folder) ? readdirSync(folder) : [];
    expect(files.length).toBeGreaterThan(0);
    const scenario = JSON.parse(readFileSync(join(folder, files[0] ?? ''), 'utf8'));
    expect(scenario).toMatchObject({ schema: 'lockstep.scenario/1', expect: { verdict: 'violated' } });
    const { code } = await lockstep('replay', join(folder, files[0] ?? ''), '--json');
    expect(code).toBe(0);
  });
});

describe('a queue that is not there', () => {
  it('is told in one sentence, without its password', async () => {
    const url = 'redis://user:hunter2@127.0.0.1:1';
    const { code, stdout, stderr } = await lockstep('campaign', 'status', '--queue', url);
    expect({ code, stdout }).toEqual({ code: 64, stdout: '' });
    expect(stderr).toMatch(
      /^lockstep: --queue: redis:\/\/user:\*\*\*@127\.0\.0\.1:1 cannot be used: .*ECONNREFUSED.*\n$/,
    );
    expect(stderr).not.toContain('hunter2');
  });
});

/** What a campaign came to, without how. */
function comparable({ stdout }: Ended): Record<string, unknown> {
  const { verdict, runs, events, hash, engine, ranges, searches, failures } = JSON.parse(stdout);
  return { verdict, runs, events, hash, engine, ranges, searches, failures };
}
