import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Provision, provision } from '../provisioner/index.js';
import { canRunOnRedis } from '../testing/can-run.js';
import { Redlock } from './index.js';

/** How to make a node answer with an error, and how to end that. */
interface Ailment {
  readonly code: string;
  /** What it keeps a node from. */
  readonly stops: 'acquire' | 'release';
  fall(client: Redis): Promise<unknown>;
  recover(client: Redis): Promise<unknown>;
}

const set = (client: Redis, ...settings: string[]) => client.config('SET', ...(settings as [string, string]));

async function snapshotOf(client: Redis): Promise<string> {
  const [, folder = ''] = (await client.config('GET', 'dir')) as string[];
  return join(folder, 'dump.rdb');
}

const AILMENTS: readonly Ailment[] = [
  {
    code: 'OOM',
    stops: 'acquire',
    fall: (client) => set(client, 'maxmemory', '1'),
    recover: (client) => set(client, 'maxmemory', '0'),
  },
  {
    code: 'NOREPLICAS',
    stops: 'acquire',
    fall: (client) => set(client, 'min-replicas-to-write', '1'),
    recover: (client) => set(client, 'min-replicas-to-write', '0'),
  },
  {
    code: 'READONLY',
    stops: 'acquire',
    // A master that does not exist.
    fall: (client) => client.replicaof('127.0.0.1', 1),
    recover: (client) => client.replicaof('NO', 'ONE'),
  },
  {
    code: 'MASTERDOWN',
    stops: 'acquire',
    fall: async (client) => {
      await set(client, 'replica-serve-stale-data', 'no', 'replica-read-only', 'no');
      await client.replicaof('127.0.0.1', 1);
    },
    recover: (client) => client.replicaof('NO', 'ONE'),
  },
  {
    code: 'NOPERM',
    stops: 'acquire',
    fall: (client) => client.acl('SETUSER', 'default', '-set'),
    recover: (client) => client.acl('SETUSER', 'default', '+@all'),
  },
  {
    code: 'NOPERM',
    stops: 'release',
    fall: (client) => client.acl('SETUSER', 'default', '-evalsha', '-eval'),
    recover: (client) => client.acl('SETUSER', 'default', '+@all'),
  },
  {
    code: 'MISCONF',
    stops: 'acquire',
    // A folder where the snapshot should go: not even root can write it.
    fall: async (client) => {
      await mkdir(await snapshotOf(client));
      await set(client, 'save', '3600 1');
      await client.bgsave();
      await expect.poll(() => client.info('persistence')).toContain('rdb_last_bgsave_status:err');
    },
    recover: async (client) => {
      await set(client, 'save', '');
      await rm(await snapshotOf(client), { recursive: true, force: true });
    },
  },
  {
    code: 'BUSY',
    stops: 'acquire',
    fall: async (client) => {
      await set(client, 'busy-reply-threshold', '1');
      const other = client.duplicate();
      other.eval('while true do end', 0).catch(() => other.disconnect());
      await expect.poll(() => client.ping().catch(String), { timeout: 10_000 }).toContain('BUSY');
    },
    recover: async (client) => {
      await client.script('KILL');
      await expect.poll(() => client.ping().catch(String), { timeout: 10_000 }).toBe('PONG');
    },
  },
];

describe.skipIf(!canRunOnRedis('error replies', 'processes'))('nodes that answer with', () => {
  let nodes: Provision;
  let clients: Redis[];
  let redlock: Redlock;

  beforeAll(async () => {
    nodes = await provision({ nodes: 5, sources: ['processes'] });
    clients = nodes.nodes.map((node) => node.client());
    redlock = new Redlock(clients, { retryCount: 0, nodeTimeoutMs: 2000 });
    await (await redlock.acquire('warm', 5000, { votesWanted: 'all' })).release();
  });
  afterAll(async () => {
    await redlock?.quit();
    await nodes?.stop();
  });

  const on = (some: readonly Redis[], act: (client: Redis) => Promise<unknown>) => Promise.all(some.map(act));
  const valuesOf = (key: string) => Promise.all(clients.map((client) => client.get(key)));
  const NOTHING = [null, null, null, null, null];

  test.each(AILMENTS)('$code on $stops have no vote, and cost neither a lock nor a crash', async (ailment) => {
    const { code, stops, fall, recover } = ailment;
    await on(clients.slice(0, 2), fall);
    try {
      const lock = await redlock.acquire('a', 5000, { votesWanted: 'all' });
      expect(lock.votes.failed).toEqual(stops === 'acquire' ? [0, 1] : []);
      await lock.release();
      await expect.poll(async () => (await on(clients.slice(2), (client) => client.get('a'))).join()).toBe(',,');
      // A third node: no quorum, or a lock that nobody can release on a quorum.
      await on(clients.slice(2, 3), fall);
      const outcome = redlock.acquire('b', 300);
      if (stops === 'acquire') {
        await expect(outcome).rejects.toMatchObject({
          code: 'ERR_LOCK_QUORUM_UNREACHABLE',
          votes: { failed: [0, 1, 2] },
          cause: { message: expect.stringContaining(code) },
        });
      } else {
        const report = await (await outcome).release();
        expect(report.released).toBeLessThanOrEqual(2);
        expect(report.unreachable).toBeGreaterThanOrEqual(1);
      }
    } finally {
      await on(clients.slice(0, 3), recover);
    }
    // What could not be released is gone when its TTL ends, and the nodes vote again.
    await expect.poll(() => valuesOf('b'), { timeout: 2000 }).toEqual(NOTHING);
    const after = await redlock.acquire('c', 5000, { votesWanted: 'all' });
    expect(after.votes.granted).toEqual([0, 1, 2, 3, 4]);
    expect(await after.release()).toMatchObject({ unreachable: 0 });
  });
});
