import { spawn } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Provision, provision } from '../provisioner/index.js';
import { canRunOnRedis } from '../testing/can-run.js';

/** How a program imports a library, makes a client of a URL, and closes it. */
const LIBRARIES: readonly [string, string, string][] = [
  [
    'ioredis',
    "import { Redis } from 'ioredis'; const make = (url) => new Redis(url, { disconnectTimeout: 1 });",
    'disconnect',
  ],
  ['redis5', "import { createClient } from 'redis5'; const make = (url) => createClient({ url });", 'unref'],
  ['redis', "import { createClient } from 'redis'; const make = (url) => createClient({ url });", 'unref'],
];

// ioredis keeps a process for two seconds after it disconnected from a dead peer, unless told otherwise.

/** Runs a program beside the repository's sources; resolves with its exit code and output. */
function run(
  [, library, close]: (typeof LIBRARIES)[number],
  body: string,
  urls: readonly string[],
): Promise<{ code: number | null; output: string }> {
  const program = `
    ${library}
    import { Redlock } from './real/lock/index.ts';
    const clients = ${JSON.stringify(urls)}.map(make);
    clients.forEach((client) => client.on('error', () => {}));
    const redlock = new Redlock(clients);
    const closeClients = () => clients.forEach((client) => client.${close}());
    ${body}
    console.log('end of program');`;
  const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '--eval', program], {
    cwd: new URL('../..', import.meta.url),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  child.stdout.on('data', (data) => {
    output += data;
  });
  child.stderr.on('data', (data) => {
    output += data;
  });
  const timer = setTimeout(() => child.kill('SIGKILL'), 20_000);
  return new Promise((resolve) => {
    child.on('close', (code) => {
      clearTimeout(timer);
      resolve({ code, output: output.trim() });
    });
  });
}

const ENDED = { code: 0, output: 'end of program' };

describe.skipIf(!canRunOnRedis('the end of a process', 'processes'))('a process ends by itself', () => {
  let nodes: Provision;
  beforeAll(async () => {
    nodes = await provision({ nodes: 5, sources: ['processes'] });
  });
  afterAll(() => nodes?.stop());

  test.each(LIBRARIES)('after quit, with %s', async (...library) => {
    const body = `
      const lock = await redlock.acquire(['exit:1'], 10_000);
      await lock.release();
      await redlock.quit();
      closeClients();`;
    expect(await run(library, body, nodes.urls)).toEqual(ENDED);
  });

  test.each(LIBRARIES)(
    'without quit, once the own clients are closed, even with a lock still held, with %s',
    async (...library) => {
      const body = `
      await redlock.using(['exit:2'], 10_000, async () => {});
      await redlock.acquire(['exit:3:${library[0]}'], 3_600_000);
      closeClients();`;
      expect(await run(library, body, nodes.urls)).toEqual(ENDED);
    },
  );

  test.each(LIBRARIES)(
    'with one node killed and one stopped, after a success and a failure, with %s',
    async (...library) => {
      await nodes.nodes[0]?.kill();
      await nodes.nodes[1]?.pause();
      const body = `
      const lock = await redlock.acquire(['exit:4'], 10_000);
      const failure = await redlock.acquire(['exit:4'], 10_000, { retryCount: 1 }).catch((error) => error.code);
      await lock.release();
      closeClients();
      if (failure !== 'ERR_LOCK_CONTENDED') throw new Error(failure);`;
      expect(await run(library, body, nodes.urls)).toEqual(ENDED);
    },
  );
});
