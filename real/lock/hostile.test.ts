import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import fc from 'fast-check';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Provision, provision } from '../provisioner/index.js';
import { type Lock, LockError, Redlock } from './index.js';
import { DEFAULTS } from './settings.js';

const throwing = new Proxy(
  {},
  {
    get: () => {
      throw new Error('mine');
    },
    ownKeys: () => {
      throw new Error('mine');
    },
  },
);
const { proxy: revoked, revoke } = Proxy.revocable({}, {});
revoke();
const bare: object = Object.create(null);

/** What can be handed in from JavaScript; made again, since some of it is used up. */
const HOSTILE: readonly (() => unknown)[] = [
  () => undefined,
  () => null,
  () => true,
  () => 0,
  () => -0,
  () => -1,
  () => 1.5,
  () => 1e308,
  () => Number.NaN,
  () => Number.POSITIVE_INFINITY,
  () => Number.MAX_SAFE_INTEGER,
  () => 2n ** 70n,
  () => '',
  () => 'a',
  () => '5000',
  () => '__proto__',
  () => '\u0000\n\u202e\ud800',
  () => 'x'.repeat(2_000_000),
  () => Symbol('s'),
  () => () => 1,
  () => ({}),
  () => bare,
  () => throwing,
  () => revoked,
  () => [],
  () => [null],
  () => ['a', 'b'],
  () => [['a']],
  () => new Array(3),
  () => Array.from({ length: 5_000 }, (_, i) => `many:${i}`),
  () => new Set(['a']),
  () => new Date(0),
  () => Promise.resolve('a'),
  () => ({ aborted: false }),
  () => ({ signal: 'x', retryCount: -2 }),
  () => ({
    get retryCount() {
      throw new Error('mine');
    },
  }),
  () => AbortSignal.abort('mine'),
  () => new AbortController().signal,
];
// Drawn is how to make it: fast-check itself looks into what it draws.
type Make = () => unknown;
const hostile = fc.constantFrom<Make>(...HOSTILE);
const settings = fc
  .dictionary(fc.constantFrom(...Object.keys(DEFAULTS), 'signal', 'quorum'), hostile, { maxKeys: 2 })
  .map(
    (makes): Make =>
      () =>
        Object.fromEntries(Object.entries(makes).map(([name, make]) => [name, make()])),
  );
const orGood = (...good: unknown[]) =>
  fc.oneof(
    hostile,
    fc.constantFrom(
      ...good.map(
        (it): Make =>
          () =>
            it,
      ),
    ),
  );

const LONGEST_MS = 5_000;

/** The call ends in time, well or with a {@link LockError}. */
async function endsWell(call: () => unknown): Promise<unknown> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('The call did not end.')), LONGEST_MS);
  });
  try {
    return await Promise.race([call(), late]);
  } catch (error) {
    if (!(error instanceof LockError)) throw error;
    expect(error.message).toMatch(/^[^\n]{1,2000}$/);
    return null;
  } finally {
    clearTimeout(timer);
  }
}

describe('hostile arguments', () => {
  let nodes: Provision;
  let redlock: Redlock;
  const rejections: unknown[] = [];
  const note = (reason: unknown) => rejections.push(reason);

  beforeAll(async () => {
    process.on('unhandledRejection', note);
    nodes = await provision({ nodes: 3, sources: ['mock'] });
    redlock = new Redlock(
      nodes.nodes.map((node) => node.client()),
      { retryCount: 0 },
    );
  });
  afterAll(async () => {
    await redlock.quit();
    await nodes.stop();
    process.off('unhandledRejection', note);
  });

  type Method = (this: Redlock, ...args: unknown[]) => unknown;
  const METHODS: readonly (readonly [string, fc.Arbitrary<Make[]>])[] = [
    ['acquire', fc.tuple(orGood('free', ['free', 'too']), orGood(50), fc.oneof(hostile, settings))],
    ['tryAcquire', fc.tuple(orGood('free', ['free', 'too']), orGood(50), fc.oneof(hostile, settings))],
    [
      'using',
      fc.tuple(
        orGood('free'),
        orGood(50),
        fc.oneof(hostile, settings),
        orGood(async () => 1),
      ),
    ],
    ['inspect', fc.tuple(orGood('free'))],
    ['extend', fc.tuple(hostile, orGood(50))],
    ['release', fc.tuple(hostile)],
  ];

  test.each(METHODS)('%s ends in time, well or with a LockError', async (name, args) => {
    const method: unknown = Reflect.get(redlock, name);
    await fc.assert(
      fc.asyncProperty(args, async (given) => {
        const result = await endsWell(() => (method as Method).call(redlock, ...given.map((make) => make())));
        if (result !== null && typeof result === 'object' && 'release' in result) await (result as Lock).release();
      }),
      { numRuns: 400 },
    );
    await new Promise((resolve) => setImmediate(resolve));
    expect(rejections).toEqual([]);
  });

  test('extend of a lock ends in time, well or with a LockError', async () => {
    await fc.assert(
      fc.asyncProperty(hostile, async (ttlMs) => {
        const lock = await redlock.acquire('extended', 5_000);
        await endsWell(() => lock.extend(ttlMs() as number));
        await lock.release();
      }),
      { numRuns: 100 },
    );
  });

  test('new Redlock is made, or throws a LockError', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(
          hostile,
          fc.array(hostile, { maxLength: 3 }).map(
            (makes): Make =>
              () =>
                makes.map((make) => make()),
          ),
        ),
        fc.oneof(hostile, settings),
        async (clients, given) => {
          await endsWell(async () => {
            await new Redlock(clients() as Redis[], given() as object).quit();
          });
        },
      ),
      { numRuns: 400 },
    );
  });
});

test.each<[string, (redlock: Redlock) => unknown, string]>([
  [
    'settings that are null',
    (it) => it.acquire('a', 50, null as never),
    'The settings are null, but they must be an object.',
  ],
  [
    'a signal that is none',
    (it) => it.acquire('a', 50, { signal: 'x' } as never),
    'signal is "x", but it must be an AbortSignal.',
  ],
  ['inspect of a list', (it) => it.inspect(['a', 'b'] as never), 'inspect looks at one resource, not at a list.'],
  ['extend of no lock', (it) => it.extend({} as never, 50), 'extend needs a lock that was acquired, not an object.'],
  [
    'release of no lock',
    (it) => it.release(undefined as never),
    'release needs a lock that was acquired, not undefined.',
  ],
])('%s: says so in a sentence', async (_, call, message) => {
  await using nodes = await provision({ nodes: 3, sources: ['mock'] });
  await using redlock = new Redlock(nodes.nodes.map((node) => node.client()));
  await expect(call(redlock)).rejects.toMatchObject({ name: 'LockError', code: 'ERR_LOCK_CONFIG', message });
});

test('a listener of errors that throws harms no lock', async () => {
  const thrown = new Promise((resolve) => {
    const others = process.listeners('uncaughtException');
    process.removeAllListeners('uncaughtException');
    process.once('uncaughtException', (error) => {
      for (const other of others) process.on('uncaughtException', other);
      resolve(error);
    });
  });
  const redlock = new Redlock([new Redis({ port: 1, lazyConnect: true })]);
  redlock.once('error', () => {
    throw new Error('mine');
  });
  expect(await thrown).toMatchObject({ message: 'mine' });
  await expect(redlock.acquire('a', 5000, { retryCount: 0 })).rejects.toMatchObject({
    code: 'ERR_LOCK_QUORUM_UNREACHABLE',
    cause: { code: 'ECONNREFUSED' },
  });
  await redlock.quit();
});

test('why a node is away is the cause of a lock that found no quorum', async () => {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    // Several commands may come at once, each of which has to be answered.
    const answer = (data: Buffer): boolean =>
      socket.write('-NOAUTH Authentication required.\r\n'.repeat(String(data).match(/^\*\d+\r$/gm)?.length ?? 0));
    socket.on('error', () => {}).on('data', answer);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  const redlock = new Redlock([new Redis({ port, lazyConnect: true })], { retryCount: 0, nodeTimeoutMs: 500 });
  await expect(redlock.acquire('a', 5000)).rejects.toMatchObject({
    code: 'ERR_LOCK_QUORUM_UNREACHABLE',
    cause: { message: expect.stringContaining('NOAUTH') },
  });
  await redlock.quit();
  for (const socket of sockets) socket.destroy();
  server.close();
});
