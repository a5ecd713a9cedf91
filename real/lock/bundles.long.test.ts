import { type ChildProcess, spawn } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { build as esbuild, type Format } from 'esbuild';
import { build as vite } from 'vite';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { freePort } from '../provisioner/free-port.js';
import { type Provision, provision } from '../provisioner/index.js';
import { canRunOnRedis } from '../testing/can-run.js';
import { type InstalledLock, installLock } from '../testing/installed-lock.js';

const { platform, arch } = process;
const NEXT = '16.4.6';
const PACKAGES = [
  ...['ioredis', 'redis', 'webpack@5.112.2', `next@${NEXT}`, 'react@19.3.1', 'react-dom@19.3.1'],
  `@next/swc-${platform}-${arch}${platform === 'linux' ? '-gnu' : ''}@${NEXT}`,
];

/** Locks by clients, by the interface of node-redlock, and at URLs, for which a bundle has no client. */
const USE = `
  import { LockError, Redlock } from 'lockstep-redlock';
  import Compat from 'lockstep-redlock/compat';
  import { createClient } from 'redis';
  import { Redis } from 'ioredis';

  export async function use(urls) {
    const clients = urls.map((url) => new Redis(url));
    const settings = { nodeTimeoutMs: 5000, retryCount: 0 };
    const key = 'bundle:' + Math.random();
    const redlock = new Redlock(urls.map((url) => createClient({ url })), settings);
    const lock = await redlock.acquire(key, 20_000);
    const error = await new Redlock(clients, settings).acquire(key, 20_000).catch((reason) => reason);
    const { released } = await lock.release();
    const compat = await new Compat(clients).acquire([key + ':compat'], 20_000);
    await compat.extend(30_000).then((longer) => longer.release());
    const atUrls = await new Redlock(urls, settings).acquire(key, 20_000).catch((reason) => reason.cause.message);
    for (const client of clients) client.disconnect();
    await redlock.quit();
    return { error: [error instanceof LockError, error.code], released: released > 1, atUrls };
  }`;
const MAIN = `
  import { use } from './use.mjs';
  use(process.argv[2].split(',')).then((used) => console.log(JSON.stringify(used)));`;

const USED = { error: [true, 'ERR_LOCK_CONTENDED'], released: true };
/** Where there is nothing but the bundle. */
const ALONE = { ...USED, atUrls: 'A URL needs a client to be installed: npm install redis, or ioredis.' };
/** An ES module that esbuild makes of packages that are CommonJS, as ioredis and node-redis are, needs it. */
const REQUIRE = "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);";

describe.skipIf(!canRunOnRedis('the packed lock in bundles'))('the packed lock, bundled', () => {
  let lock: InstalledLock;
  let redis: Provision;

  beforeAll(async () => {
    [lock, redis] = await Promise.all([installLock(PACKAGES), provision({ nodes: 3 })]);
    lock.write('use.mjs', USE);
    lock.write('main.mjs', MAIN);
  });
  afterAll(async () => {
    await Promise.all([lock?.[Symbol.asyncDispose](), redis?.stop()]);
  });

  /** What a bundle prints where nothing is installed. */
  async function runAlone(bundle: string): Promise<unknown> {
    const folder = mkdtempSync(join(tmpdir(), 'lockstep-bundle-'));
    cpSync(dirname(bundle), folder, { recursive: true });
    const [name = ''] = readdirSync(folder);
    console.log(`${bundle.slice(lock.folder.length + 1)}: ${statSync(join(folder, name)).size} bytes`);
    const printed = await lock.run(process.execPath, [join(folder, name), redis.urls.join()]);
    await rm(folder, { recursive: true });
    return JSON.parse(printed);
  }

  test.each<[Format, string]>([
    ['esm', 'mjs'],
    ['cjs', 'cjs'],
  ])('by esbuild locks, as %s', async (format, ending) => {
    const outfile = join(lock.folder, `esbuild-${format}`, `main.${ending}`);
    const { warnings } = await esbuild({
      absWorkingDir: lock.folder,
      entryPoints: ['main.mjs'],
      outfile,
      format,
      bundle: true,
      minify: true,
      platform: 'node',
      banner: format === 'esm' ? { js: REQUIRE } : {},
      logLevel: 'silent',
    });
    expect(warnings).toEqual([]);
    expect(await runAlone(outfile)).toEqual(ALONE);
  });

  test.each<['es' | 'cjs', string]>([
    ['es', 'mjs'],
    ['cjs', 'cjs'],
  ])('by Vite for a server locks, as %s', async (format, ending) => {
    const outDir = join(lock.folder, `vite-${format}`);
    await vite({
      root: lock.folder,
      configFile: false,
      logLevel: 'silent',
      ssr: { noExternal: true, target: 'node' },
      build: {
        ssr: 'main.mjs',
        outDir,
        minify: true,
        rollupOptions: { output: { format, entryFileNames: `main.${ending}`, codeSplitting: false } },
      },
    });
    expect(await runAlone(join(outDir, `main.${ending}`))).toEqual(ALONE);
  });

  test.each(['module', 'commonjs2'])('by webpack locks, as %s, and the lock needs no warning', async (type) => {
    const outDir = join(lock.folder, `webpack-${type}`);
    const name = type === 'module' ? 'main.mjs' : 'main.cjs';
    const config = {
      mode: 'production',
      target: 'node20',
      context: lock.folder,
      entry: './main.mjs',
      output: { path: outDir, filename: name, module: type === 'module', library: { type } },
      experiments: { outputModule: type === 'module' },
    };
    lock.write(
      'webpack.cjs',
      `require('webpack')(${JSON.stringify(config)}, (error, stats) => {
        console.log(JSON.stringify({ error, ...stats?.toJson({ all: false, errors: true, warnings: true, moduleTrace: true }) }));
      });`,
    );
    const { error, errors, warnings } = JSON.parse(await lock.run(process.execPath, ['webpack.cjs']));
    expect({ error, errors }).toEqual({ error: null, errors: [] });
    expect(JSON.stringify(warnings)).not.toContain('lockstep-redlock');
    expect(await runAlone(join(outDir, name))).toEqual(ALONE);
  });

  test('by Next.js locks in a route', async () => {
    lock.write('next.config.mjs', 'export default {};');
    const app = join(lock.folder, 'app');
    mkdirSync(join(app, 'lock'), { recursive: true });
    const layout = 'export default ({ children }) => <html lang="en"><body>{children}</body></html>;';
    writeFileSync(join(app, 'layout.jsx'), layout);
    writeFileSync(
      join(app, 'lock/route.js'),
      `import { use } from '../../use.mjs';
       export const dynamic = 'force-dynamic';
       export const GET = async (request) => Response.json(await use(process.env.NODES.split(',')));`,
    );
    const next = createRequire(join(lock.folder, 'package.json')).resolve('next/dist/bin/next');
    const env = { NEXT_TELEMETRY_DISABLED: '1', NODES: redis.urls.join(), NODE_ENV: 'production' as const };
    await lock.run(process.execPath, [next, 'build'], env);
    const port = await freePort();
    const argv = [next, 'start', '--hostname', '127.0.0.1', '--port', String(port)];
    const server = spawn(process.execPath, argv, {
      cwd: lock.folder,
      env: { ...process.env, ...env },
      stdio: 'ignore',
    });
    try {
      const used = await answerOf(`http://127.0.0.1:${port}/lock`, server);
      // Here the clients are installed, too.
      expect(used).toEqual({ ...USED, atUrls: expect.objectContaining({ resources: [expect.any(String)] }) });
    } finally {
      server.kill('SIGKILL');
    }
  });
});

/** What a server answers once it listens. */
async function answerOf(url: string, server: ChildProcess): Promise<unknown> {
  for (;;) {
    const response = await fetch(url).catch(() => null);
    if (response !== null) return response.json();
    if (server.exitCode !== null) throw new Error(`The server ended with ${server.exitCode}.`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
