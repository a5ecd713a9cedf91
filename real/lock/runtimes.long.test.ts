import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Provision, provision } from '../provisioner/index.js';
import { canRunOnRedis } from '../testing/can-run.js';
import { type InstalledLock, install, installLock } from '../testing/installed-lock.js';
import { Redlock } from './index.js';

interface Runtime {
  readonly name: string;
  /** Of the registry of npm, with the program for this machine. */
  readonly package: string;
  readonly version: string;
  readonly program: string;
  /** In front of the name of a module. */
  readonly argv: readonly string[];
  /** What it prints for its version begins so. */
  readonly prints: string;
}

const { platform, arch } = process;
const bunArch = arch === 'arm64' ? 'aarch64' : arch;
const libc = platform === 'linux' ? '-glibc' : '';
const nodes = ['20.19.0', '22.23.3', '24.21.0'].map(
  (version): Runtime => ({
    name: `Node ${version}`,
    package: `node-${platform}-${arch}`,
    version,
    program: 'bin/node',
    argv: [],
    prints: `v${version}`,
  }),
);
const RUNTIMES: readonly Runtime[] = [
  ...nodes,
  {
    name: 'Bun',
    package: `@oven/bun-${platform}-${bunArch}`,
    version: '1.4.5',
    program: 'bin/bun',
    argv: [],
    prints: '1.4.5',
  },
  {
    name: 'Deno',
    package: `@deno/${platform}-${arch}${libc}`,
    version: '2.9.6',
    program: 'deno',
    argv: ['run', '--allow-net', '--allow-env', '--allow-sys=osUptime'],
    prints: 'deno 2.9.6',
  },
];

/** Uses the lock in every way that meets the runtime: sockets, timers, clocks, imports; prints what became of it. */
const PROGRAM = `
  const urls = process.argv[2].split(',');
  const clients = {
    ioredis: () => urls.map((url) => new Redis(url)),
    'node-redis': () => urls.map((url) => createClient({ url })),
    URLs: () => urls,
  };
  const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const settings = { nodeTimeoutMs: 5000, retryCount: 0 };

  async function use(made, key) {
    const redlock = new Redlock(made, settings);
    const events = [];
    for (const event of ['acquired', 'extended', 'released']) redlock.on(event, () => events.push(event));
    const lock = await redlock.acquire(key, 20_000, { votesWanted: 'all' });
    const votes = lock.votes.granted.length;
    const other = await redlock.tryAcquire(key, 20_000);
    const error = await redlock.acquire(key, 20_000).catch((reason) => reason);
    await lock.extend(60_000);
    const isExtended = lock.remaining() > 20_000;
    const { released } = await lock.release();
    const fenced = await redlock.acquire(key, 20_000, { fencing: true });
    await fenced.release();
    const aborted = await redlock.using([key, key + ':2'], 5000, { automaticExtensionThreshold: 5000 }, async (signal) => {
      await sleep(6000);
      return signal.aborted;
    });
    await redlock.quit();
    return {
      votes,
      other,
      error: [error instanceof LockError, error.code],
      isExtended,
      released: released > 1,
      counter: fenced.fencingToken.counter > 0,
      aborted,
      events: events.join(' '),
    };
  }

  async function useCompat(made, key) {
    const redlock = new Compat(made, { retryCount: 3 });
    const lock = await redlock.acquire([key], 20_000);
    const error = await redlock.acquire([key], 20_000).catch((reason) => reason);
    const longer = await lock.extend(30_000);
    const { attempts } = await longer.release();
    await redlock.quit();
    return [error instanceof ExecutionError, attempts.length];
  }

  async function main() {
    const results = await Promise.all(
      Object.entries(clients).map(async ([kind, make]) => {
        const key = kind + ':' + Math.random();
        const made = make();
        const result = await use(made, key);
        for (const client of made) if (kind === 'ioredis') client.disconnect();
        return [kind, result, await useCompat(make(), key + ':compat')];
      }),
    );
    console.log(JSON.stringify(results));
    // Held, and nobody closes anything: the process ends all the same.
    await new Redlock(urls, settings).acquire('held:' + Math.random(), 60_000);
  }
  main();`;

const IMPORTS = `
  import { LockError, Redlock } from 'lockstep-redlock';
  import Compat, { ExecutionError } from 'lockstep-redlock/compat';
  import { Redis } from 'ioredis';
  import { createClient } from 'redis';`;
const REQUIRES = `
  const { LockError, Redlock } = require('lockstep-redlock');
  const { default: Compat, ExecutionError } = require('lockstep-redlock/compat');
  const { Redis } = require('ioredis');
  const { createClient } = require('redis');`;

const USED = ['ioredis', 'node-redis', 'URLs'].map((kind) => [
  kind,
  {
    votes: 3,
    other: null,
    error: [true, 'ERR_LOCK_CONTENDED'],
    isExtended: true,
    released: true,
    counter: true,
    aborted: false,
    events: expect.stringMatching(/^acquired extended released acquired released acquired (extended )+released$/),
  },
  [true, 1],
]);

describe.skipIf(!canRunOnRedis('the packed lock in other runtimes'))('the packed lock', () => {
  let lock: InstalledLock;
  let redis: Provision;

  beforeAll(async () => {
    [lock, redis] = await Promise.all([installLock(['ioredis', 'redis']), provision({ nodes: 3 })]);
    lock.write('use.mjs', IMPORTS + PROGRAM);
    lock.write('use.cjs', REQUIRES + PROGRAM);
    await using redlock = new Redlock(redis.urls, { nodeTimeoutMs: 5000 });
    await redlock.recoverFencing(0);
  });
  afterAll(async () => {
    await Promise.all([lock?.[Symbol.asyncDispose](), redis?.stop()]);
  });

  describe.each(RUNTIMES)('in $name', (runtime) => {
    let program: string;
    const env = { NO_COLOR: '1', DENO_NO_UPDATE_CHECK: '1' };

    beforeAll(async () => {
      const folder = join(lock.folder, `runtime-${runtime.name.replaceAll(' ', '-')}`);
      mkdirSync(folder);
      await install(folder, [`${runtime.package}@${runtime.version}`]);
      program = join(folder, 'node_modules', runtime.package, runtime.program);
      expect(await lock.run(program, ['--version'])).toMatch(runtime.prints);
    });

    test.each(['use.mjs', 'use.cjs'])('locks with every client: %s', async (module) => {
      const printed = await lock.run(program, [...runtime.argv, module, redis.urls.join()], {
        ...env,
        DENO_DIR: join(lock.folder, 'deno'),
      });
      expect(JSON.parse(printed)).toEqual(USED);
    });
  });
});
