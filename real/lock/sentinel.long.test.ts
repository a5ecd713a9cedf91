import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Provision, type ProvisionedNode, provision } from '../provisioner/index.js';
import { canRunOnRedis } from '../testing/can-run.js';
import { untilVoters } from '../testing/voters.js';
import { MASTER_NAME, sentinelOf } from '../testing/wrapped-servers.js';
import { Redlock, type RedlockSettings } from './index.js';

const PATIENT: RedlockSettings = { retryCount: 0, nodeTimeoutMs: 2000 };

function portOf(node: ProvisionedNode | undefined): number {
  return Number(new URL(node?.url ?? '').port);
}

describe.skipIf(!canRunOnRedis('Sentinel', 'processes'))('a master found through Sentinel as one node', () => {
  /** The first two are a master and its replica, the others nodes of their own. */
  let servers: Provision;
  let sentinel: Provision;
  let clients: Redis[];
  let redlock: Redlock;

  beforeEach(async () => {
    servers = await provision({ nodes: 4, sources: ['processes'] });
    const [master, replica, ...others] = servers.nodes;
    const onReplica = replica?.client();
    await onReplica?.replicaof('127.0.0.1', portOf(master));
    await expect.poll(() => onReplica?.info('replication'), { timeout: 10_000 }).toContain('master_link_status:up');
    sentinel = await sentinelOf(master?.url ?? '');
    const onSentinel = sentinel.nodes[0]?.client();
    await expect
      .poll(async () => String(await onSentinel?.call('SENTINEL', 'replicas', MASTER_NAME)), { timeout: 15_000 })
      .toContain(String(portOf(replica)));
    clients = [viaSentinel(), ...others.map((node) => node.client())];
    redlock = new Redlock(clients, PATIENT);
    await untilVoters(redlock, 3);
  });
  afterEach(async () => {
    await redlock?.quit();
    for (const client of clients ?? []) client.disconnect();
    await Promise.all([servers?.stop(), sentinel?.stop()]);
  });

  function viaSentinel(): Redis {
    const sentinels = [{ host: '127.0.0.1', port: portOf(sentinel.nodes[0]) }];
    return new Redis({ sentinels, name: MASTER_NAME, disconnectTimeout: 1 }).on('error', () => {});
  }

  /** Lets the replica take over without what the master gets from now on, once the returned function is called. */
  async function cutReplication(): Promise<() => Promise<void>> {
    const [master, replica] = servers.nodes;
    await replica?.pause();
    await master?.client().client('KILL', 'TYPE', 'replica');
    return async () => {
      await master?.kill();
      await replica?.resume();
      const onReplica = replica?.client();
      await expect.poll(() => onReplica?.role(), { timeout: 20_000 }).toContain('master');
      await untilVoters(redlock, 3);
    };
  }

  test('votes, is no second node beside itself, and votes again after a failover, with what was replicated', async () => {
    expect(() => new Redlock([...clients, viaSentinel()])).toThrow(/are the same server/);
    const lock = await redlock.acquire('a', 60_000, { votesWanted: 'all' });
    expect(lock.votes.granted).toEqual([0, 1, 2]);
    const [master, replica] = servers.nodes;
    const onReplica = replica?.client();
    await expect.poll(() => onReplica?.get('a')).toBe(lock.value);
    await master?.kill();
    await expect.poll(() => onReplica?.role(), { timeout: 20_000 }).toContain('master');
    await untilVoters(redlock, 3);
    await lock.extend(60_000);
    expect(lock.remaining()).toBeGreaterThan(50_000);
    expect(await redlock.tryAcquire('a', 1000)).toBeNull();
    await lock.release();
    await expect.poll(() => onReplica?.get('a')).toBeNull();
  });

  test('forgets what was not replicated: two hold a lock with the votes of a bare quorum', async () => {
    const failOver = await cutReplication();
    // Another lock is in the way on the last node.
    await clients[2]?.set('a', 'another', 'PX', 60_000);
    const first = await redlock.acquire('a', 60_000);
    expect(first.votes.granted).toEqual([0, 1]);
    expect(first.toleratedDataLoss).toBe(0);
    await failOver();
    await clients[2]?.del('a');
    const second = await redlock.acquire('a', 60_000);
    expect([first.remaining() > 0, second.remaining() > 0]).toEqual([true, true]);
  });

  test('forgets what was not replicated: a lock with a vote more than the quorum excludes others all the same', async () => {
    const failOver = await cutReplication();
    const first = await redlock.acquire('a', 60_000, { votesWanted: 'all' });
    expect(first.toleratedDataLoss).toBe(1);
    await failOver();
    expect(await redlock.tryAcquire('a', 1000)).toBeNull();
    expect(first.remaining()).toBeGreaterThan(0);
  });
});
