import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CLIENT_KINDS, type MadeClient } from '../testing/client-kinds.js';
import { DialectServers } from '../testing/dialect-servers.js';
import { untilVoters } from '../testing/voters.js';
import { type AnyClient, Redlock, type RedlockTransport } from './index.js';

const PATIENT = { retryCount: 0, nodeTimeoutMs: 2000 };
const SCRIPTS = ['EVAL', 'EVALSHA'];

/** What an extension and a release are, by edition; on one key. */
const EDITIONS: readonly [string, readonly string[], readonly string[]][] = [
  ['redis 7.0.15', ['EVALSHA'], ['EVALSHA']],
  ['redis 8.4.0', ['SET'], ['DELEX']],
  ['valkey 8.1.0', ['SET'], ['EVALSHA']],
  ['valkey 9.0.0', ['SET'], ['DELIFEQ']],
];

/** The commands of locks that `servers` were sent since the last call, each once. */
function takeSent(servers: DialectServers): string[] {
  const wanted = ['SET', 'DELEX', 'DELIFEQ', ...SCRIPTS];
  return [...new Set(servers.sent.splice(0).filter((name) => wanted.includes(name)))];
}

describe.each(EDITIONS)('on servers of %s', (edition, extension, release) => {
  let servers: DialectServers;
  beforeAll(async () => {
    servers = await DialectServers.start(edition, 3);
  });
  afterAll(() => servers[Symbol.asyncDispose]());

  describe.each(CLIENT_KINDS)('with clients of %s', (kind, make) => {
    let made: MadeClient[];
    let redlock: Redlock;
    beforeAll(async () => {
      made = await Promise.all(servers.urls.map(make));
      redlock = new Redlock(
        made.map(({ client }) => client),
        PATIENT,
      );
      await (await redlock.acquire(`${kind}:warm`, 5000, { votesWanted: 'all', retryCount: 20 })).release();
    });
    afterAll(async () => {
      await redlock.quit();
      for (const { close } of made) close();
    });

    test('one key needs no more than the server has', async () => {
      takeSent(servers);
      const lock = await redlock.acquire(kind, 5000, { votesWanted: 'all' });
      expect(takeSent(servers)).toEqual(['SET']);
      await lock.extend(9000);
      expect(await redlock.inspect(kind)).toMatchObject({ state: 'held', value: lock.value });
      expect(takeSent(servers)).toEqual(extension);
      expect(await lock.release()).toMatchObject({ alreadyGone: 0, unreachable: 0 });
      await expect.poll(() => redlock.inspect(kind)).toMatchObject({ state: 'free' });
      expect(takeSent(servers)).toEqual(release);
    });

    test('others cannot acquire, extend or release it', async () => {
      await using lock = await redlock.acquire(kind, 5000, { votesWanted: 'all' });
      expect(await redlock.tryAcquire(kind, 5000)).toBeNull();
      const other = await redlock.acquire(`${kind}:other`, 5000, { votesWanted: 'all' });
      expect(await other.release()).toMatchObject({ alreadyGone: 0, unreachable: 0 });
      await expect(other.extend(5000)).rejects.toMatchObject({ code: 'ERR_LOCK_LOST' });
      expect(await redlock.inspect(kind)).toMatchObject({ state: 'held', value: lock.value });
    });

    test('several keys are one script', async () => {
      const lock = await redlock.acquire([`${kind}:a`, `${kind}:b`], 5000, { votesWanted: 'all' });
      await lock.extend(9000);
      expect(await lock.release()).toMatchObject({ alreadyGone: 0, unreachable: 0 });
    });

    test('a shorter extension takes nothing from the keys, as its failure would leave the lock valid', async () => {
      const lock = await redlock.acquire(kind, 60_000, { votesWanted: 'all' });
      await lock.extend(1000);
      const { holding, remainingMs } = await redlock.inspect(kind);
      expect(holding.length).toBeGreaterThan(1);
      expect(remainingMs).toBeGreaterThan(50_000);
      await lock.release();
    });
  });
});

const server = (url: string | undefined): Redis => new Redis(url ?? '').on('error', () => {});

test('a server that refuses to compare gets scripts', async () => {
  await using servers = await DialectServers.start('redis 8.4.0', 3);
  const clients = servers.urls.map(server);
  await using redlock = new Redlock(clients, PATIENT);
  await untilVoters(redlock, 3);
  servers.refuse('delex');
  const lock = await redlock.acquire('refused', 5000, { votesWanted: 'all' });
  expect(await lock.release()).toMatchObject({ alreadyGone: 0, unreachable: 0 });
  await expect.poll(() => redlock.inspect('refused')).toMatchObject({ state: 'free' });
  for (const client of clients) client.disconnect();
});

test('a server without scripts has locks on one key', async () => {
  await using servers = await DialectServers.start('valkey 9.0.0', 3);
  for (const it of servers.servers) it.allows = (name) => !/^(eval|evalsha|script)$/.test(name);
  const clients = servers.urls.map(server);
  await using redlock = new Redlock(clients, PATIENT);
  const lock = await redlock.acquire('bare', 5000, { votesWanted: 'all' });
  await lock.extend(6000);
  expect(await lock.release()).toMatchObject({ alreadyGone: 0, unreachable: 0 });
  for (const client of clients) client.disconnect();
});

test('a node that comes back as another version is spoken to as that', async () => {
  const first = await DialectServers.start('redis 8.4.0', 3);
  const clients = first.urls.map(server);
  await using redlock = new Redlock(clients, PATIENT);
  await untilVoters(redlock, 3);
  await first[Symbol.asyncDispose]();
  for (const [edition, command] of [
    ['redis 7.0.15', 'EVALSHA'],
    ['valkey 9.0.0', 'DELIFEQ'],
  ] as const) {
    await using next = await DialectServers.start(edition, 3, first.ports);
    await untilVoters(redlock, 3);
    takeSent(next);
    await (await redlock.acquire('versions', 5000)).release();
    await expect.poll(() => takeSent(next)).toContain(command);
  }
  for (const client of clients) client.disconnect();
});

test('an extension that arrives late, after a longer one by another connection, shortens no key that counts', async () => {
  await using servers = await DialectServers.start('redis 8.4.0', 3);
  const direct = servers.urls.map(server);
  let late: (() => Promise<unknown>) | undefined;
  const losing: RedlockTransport = {
    openSession: ({ onReady, onEnd }) => {
      onReady();
      return {
        send: async ([name = '', ...words]) => {
          const send = async () => direct[0]?.call(name, ...words);
          if (late !== undefined || !words.includes('IFEQ') || name !== 'SET') return send();
          late = send;
          onEnd(new Error('lost'));
          throw new Error('lost');
        },
        close: () => {},
      };
    },
  };
  const clients: AnyClient[] = [losing, ...direct.slice(1)];
  await using redlock = new Redlock(clients, PATIENT);
  const lock = await redlock.acquire('late', 5000, { votesWanted: 'all' });
  await lock.extend(5000);
  await untilVoters(redlock, 3);
  await lock.extend(60_000);
  const { granted } = lock.votes;
  expect(await late?.()).toBe('OK');
  expect(granted.length).toBeGreaterThan(1);
  const left = await Promise.all(granted.map((node) => direct[node]?.pttl('late')));
  for (const ms of left) expect(ms).toBeGreaterThan(50_000);
  await lock.release();
  for (const client of direct) client.disconnect();
});
