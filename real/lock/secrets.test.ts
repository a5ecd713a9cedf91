import { createRequire } from 'node:module';
import { createServer, type Server } from 'node:net';
import { inspect } from 'node:util';
import type { Redis, RedisOptions } from 'ioredis';
import { createClient } from 'redis';
import { createClient as createClient5 } from 'redis5';
import { afterEach, describe, expect, test } from 'vitest';
import { RestBridge } from '../chaos/rest-bridge.js';
import { provision } from '../provisioner/index.js';
import { canRunOnRedis } from '../testing/can-run.js';
import { LockError, Redlock } from './index.js';

interface NodeRedisOptions {
  url?: string;
  username?: string;
  password?: string;
  socket?: { host: string; port: number };
}

const PASSWORD = 'hunter2secret';
const require = createRequire(import.meta.url);
const { Redis: Redis5, Cluster } = require('ioredis') as typeof import('ioredis');
const { Redis: Redis6 } = require('ioredis6') as { Redis: new (options: RedisOptions) => Redis };
const clients: readonly (readonly [string, new (options: RedisOptions) => Redis])[] = [
  ['ioredis 5', Redis5],
  ['ioredis 6', Redis6],
];

const servers: Server[] = [];
const opened: { disconnect(): void }[] = [];
afterEach(() => {
  for (const client of opened.splice(0)) client.disconnect();
  for (const server of servers.splice(0)) server.close();
});

/** A server that refuses whatever it is sent, with what `reply` makes of it. */
async function refusing(reply: (command: readonly string[]) => string): Promise<number> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', (data) => {
      // Commands that are sent at once are answered each.
      for (const command of String(data)
        .split(/\*\d+\r\n/)
        .slice(1)) {
        const words = command.split('\r\n').filter((_, i) => i % 2 === 1);
        socket.write(`-${reply(words)}\r\n`);
      }
    });
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : 0;
}

/** All that logging or serializing shows of a value. */
function shown(value: unknown): string {
  const stacks = value instanceof Error ? [String(value), value.message, value.stack] : [];
  return [inspect(value, { depth: Number.POSITIVE_INFINITY, showHidden: true }), JSON.stringify(value), ...stacks].join(
    '\n',
  );
}

/** What a lock on one client emits and throws while its node refuses it. */
async function emitted(client: ConstructorParameters<typeof Redlock>[0] extends Iterable<infer T> ? T : never) {
  const texts: string[] = [];
  await using redlock = new Redlock([client], { retryCount: 1, retryDelay: 20, nodeTimeoutMs: 200 });
  const first = new Promise<void>((resolve) => {
    redlock.on('error', (error) => {
      texts.push(shown(error));
      resolve();
    });
  });
  const failure = await redlock.acquire('a', 1000).then(
    () => null,
    (error: unknown) => error,
  );
  expect(failure).toBeInstanceOf(LockError);
  await first;
  return [...texts, shown(failure), shown(redlock), shown(await redlock.inspect('a'))].join('\n');
}

describe.each([
  ['node-redis 5', (options: NodeRedisOptions) => createClient5(options)],
  ['node-redis 6', (options: NodeRedisOptions) => createClient(options)],
])('with %s, no password is emitted', (_, create) => {
  test.each([{ password: PASSWORD }, { username: 'bob', password: PASSWORD }])('that is wrong: %j', async (given) => {
    const port = await refusing(() => 'WRONGPASS invalid username-password pair or user is disabled.');
    const text = await emitted(create({ socket: { host: '127.0.0.1', port }, ...given }));
    expect(text).toContain('WRONGPASS');
    expect(text).not.toContain(PASSWORD);
  });

  test('that a server repeats which does not know the command', async () => {
    const port = await refusing(
      ([name, ...args]) => `ERR unknown command \`${name}\`, with args beginning with: \`${args.join('`, `')}\`, `,
    );
    const text = await emitted(create({ url: `redis://:${PASSWORD}@127.0.0.1:${port}` }));
    expect(text).toContain('unknown command');
    expect(text).not.toContain(PASSWORD);
  });
});

describe.each(clients)('with %s, no password is emitted', (_, Client) => {
  const make = (options: RedisOptions): Redis => {
    const client = new Client({ host: '127.0.0.1', lazyConnect: true, disconnectTimeout: 1, ...options });
    opened.push(client.on('error', () => {}));
    return client;
  };

  test.each([{ password: PASSWORD }, { username: 'bob', password: PASSWORD }])('that is wrong: %j', async (given) => {
    const port = await refusing(() => 'WRONGPASS invalid username-password pair or user is disabled.');
    const text = await emitted(make({ port, ...given }));
    expect(text).toContain('WRONGPASS');
    expect(text).not.toContain(PASSWORD);
  });

  test('that a server repeats which does not know the command', async () => {
    const port = await refusing(
      ([name, ...args]) => `ERR unknown command \`${name}\`, with args beginning with: \`${args.join('`, `')}\`, `,
    );
    const text = await emitted(make({ port, password: PASSWORD }));
    expect(text).toContain('unknown command');
    expect(text).not.toContain(PASSWORD);
  });

  test('of a Sentinel, nor of what its address says', async () => {
    const port = await refusing(() => 'WRONGPASS invalid username-password pair or user is disabled.');
    const sentinel = { host: '127.0.0.1', port, password: PASSWORD };
    const options = { sentinels: [sentinel], name: 'main', sentinelPassword: PASSWORD, password: PASSWORD };
    expect(await emitted(make(options))).not.toContain(PASSWORD);
    let message = '';
    try {
      new Redlock([make(options), make(options)]);
    } catch (error) {
      message = shown(error);
    }
    expect(message).toContain(`n0 and n1 are the same server, 127.0.0.1:${port} main`);
    expect(message).not.toContain(PASSWORD);
  });
});

test('no password of a Cluster is emitted', async () => {
  const port = await refusing(() => 'WRONGPASS invalid username-password pair or user is disabled.');
  const options = { lazyConnect: true, redisOptions: { password: PASSWORD } };
  const cluster = new Cluster([`redis://:${PASSWORD}@127.0.0.1:${port}`], options);
  opened.push(cluster.on('error', () => {}));
  expect(await emitted(cluster)).not.toContain(PASSWORD);
});

test('no token of Upstash is emitted', async () => {
  const bridge = await RestBridge.open('redis://127.0.0.1:1', 'another token');
  const text = await emitted({ url: bridge.url, token: PASSWORD });
  bridge.close();
  expect(text).toContain('WRONGPASS');
  expect(text).not.toContain(PASSWORD);
});

describe.skipIf(!canRunOnRedis('logs without tokens'))('on real nodes', () => {
  test.each([false, true])('no token is in what may be logged of a lock, with fencing: %j', async (fencing) => {
    await using nodes = await provision({ nodes: 3 });
    const settings = { fencing, nodeTimeoutMs: 2000, retryCount: 0 };
    await using redlock = new Redlock([...nodes.urls], settings);
    const told: unknown[] = [];
    for (const event of ['acquired', 'extended', 'contended', 'released', 'failed'] as const) {
      redlock.on(event, (notice) => told.push(notice));
    }
    if (fencing) await redlock.recoverFencing(0);
    const lock = await redlock.acquire('a', 10_000, { votesWanted: 'all' });
    expect(lock.fencingToken).toEqual(fencing ? { counter: 1, attempt: lock.value } : null);
    expect(lock.toJSON()).toMatchObject({ resources: ['a'], fencingCounter: fencing ? 1 : null });
    const contended = await redlock.acquire('a', 10_000).catch((error: unknown) => error);
    await lock.extend(20_000);
    const held = shown(lock);
    await lock.release();
    const late = await lock.extend(20_000).catch((error: unknown) => error);
    expect(told.length).toBe(5);
    expect([held, ...[lock, contended, late, told].map(shown)].join('\n')).not.toContain(lock.value);
  });
});

test('no password of LOCKSTEP_REDIS is in an error, nor in what comes with it', async () => {
  const port = await refusing(
    ([name, ...args]) => `ERR unknown command '${name}', with args beginning with: '${args.join("', '")}', `,
  );
  const place = `127.0.0.1:${port}`;
  const urls = [
    `redis://bob:${PASSWORD}@${place}`,
    `redis://${place}?password=${PASSWORD}`,
    `redis://:${PASSWORD}/@${place}`,
    `redis://:a,${PASSWORD}@${place}`,
    `redis://:${PASSWORD},b@${place}`,
    `http://bob:${PASSWORD}@${place}`,
    `bob:${PASSWORD}@${place}`,
  ];
  for (const url of urls) {
    for (const env of [{ LOCKSTEP_REDIS: url }, { LOCKSTEP_REDIS: `${url},${url}` }]) {
      const error = await provision({ nodes: 1, env, sources: ['urls'] }).then(
        () => null,
        (it: unknown) => it,
      );
      expect(error).toBeInstanceOf(Error);
      expect(shown(error)).not.toContain(PASSWORD);
    }
  }
});
