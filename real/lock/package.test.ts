import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { transformSync } from 'esbuild';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { importsOf } from '../../test/modules.js';
import { findings, type Packed, packInto } from '../../test/packed.js';
import { type Provision, provision } from '../provisioner/index.js';
import { canRunOnRedis } from '../testing/can-run.js';
import * as sources from './index.js';

const exec = promisify(execFile);
const HERE = fileURLToPath(new URL('.', import.meta.url));
const ROOT = join(HERE, '../..');

/** Where somebody has installed the package who has nothing else. */
const folder = mkdtempSync(join(tmpdir(), 'lockstep-redlock-'));
let packed: Packed;

beforeAll(async () => {
  packed = await packInto(folder, HERE);
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n');
  await exec('npm', ['install', '--offline', '--no-audit', '--no-fund', packed.filename], { cwd: folder });
});

afterAll(() => rm(folder, { recursive: true, force: true }));

/** Runs a module of the folder, and resolves with what it prints. */
async function print(name: string, text: string): Promise<unknown> {
  writeFileSync(join(folder, name), text);
  const { stdout, stderr } = await exec(process.execPath, [name], { cwd: folder, timeout: 30_000 });
  expect(stderr).toBe('');
  return JSON.parse(stdout);
}

/** The same where of the clients for URLs only those are installed; the others are folders with nothing to import. */
async function printWith(clients: readonly string[], text: string): Promise<unknown> {
  const own = mkdtempSync(join(tmpdir(), 'lockstep-redlock-'));
  const modules = join(own, 'node_modules');
  cpSync(join(folder, 'node_modules/lockstep-redlock'), join(modules, 'lockstep-redlock'), { recursive: true });
  for (const name of ['ioredis', 'redis']) {
    if (clients.includes(name)) symlinkSync(join(ROOT, 'node_modules', name), join(modules, name));
    else {
      mkdirSync(join(modules, name));
      writeFileSync(join(modules, name, 'package.json'), '{}\n');
    }
  }
  writeFileSync(join(own, 'own.cjs'), `const { Redlock } = require('lockstep-redlock');\n${text}`);
  const { stdout } = await exec(process.execPath, ['own.cjs'], { cwd: own, timeout: 30_000 });
  await rm(own, { recursive: true });
  return JSON.parse(stdout);
}

describe('the packed lock', () => {
  test('is one package of at most 300 kB, without dependencies', () => {
    const installed = readdirSync(join(folder, 'node_modules')).filter((name) => !name.startsWith('.'));
    expect(installed).toEqual(['lockstep-redlock']);
    expect(packed.unpackedSize).toBeLessThan(300_000);
    const { dependencies } = createRequire(import.meta.url)('./package.json') as { dependencies?: object };
    expect(dependencies).toBeUndefined();
  });

  test('has nothing but what is built, and a README that begins with a lock', () => {
    expect(packed.files.map(({ path }) => path).filter((path) => !path.startsWith('dist/'))).toEqual([
      'CHANGELOG.md',
      'LICENSE',
      'README.md',
      'package.json',
    ]);
    const lines = readFileSync(join(HERE, 'README.md'), 'utf8').split('\n').slice(0, 10);
    expect(lines.join('\n')).toContain('await redlock.using(');
  });

  test('has the declarations that its own lead to, and no others', () => {
    const declared = packed.files.map(({ path }) => path).filter((path) => path.endsWith('.d.ts'));
    const imported = declared.flatMap((path) =>
      importsOf(path, readFileSync(join(folder, 'node_modules/lockstep-redlock', path), 'utf8')).flatMap((it) =>
        it.package ? [] : it.target.replace(/\.ts$/, '.d.ts'),
      ),
    );
    // What the entries are for `require`.
    const entries = ['dist/compat.d.ts', 'dist/index.d.ts'];
    expect([...new Set([...imported, ...entries])].sort()).toEqual(declared.sort());
  });

  test('is as publint and are-the-types-wrong want it', async () => {
    // `node10` is a resolution of types that knows nothing of `exports`; the Node of that time is none that this runs on.
    const { messages, problems } = await findings(join(folder, packed.filename));
    const meant = problems.filter((it) => !('resolutionKind' in it && it.resolutionKind === 'node10'));
    expect({ messages, meant }).toEqual({ messages: [], meant: [] });
  });

  test('exports the same to import and to require: what its sources export', async () => {
    const both = await print(
      'both.cjs',
      `const required = require('lockstep-redlock');
       import('lockstep-redlock').then((imported) => console.log(JSON.stringify({
         imported: Object.keys(imported),
         same: Object.keys(imported).every((name) => imported[name] === required[name]),
       })));`,
    );
    expect(both).toEqual({ imported: Object.keys(sources).sort(), same: true });
  });

  test('says what a URL needs, where neither client is installed', async () => {
    const text = `const redlock = new Redlock(['redis://127.0.0.1:1'], { retryCount: 0 });
      redlock.acquire('a', 1000).catch(({ code, cause }) => console.log(JSON.stringify([code, cause.message])));`;
    const message = 'A URL needs a client to be installed: npm install redis, or ioredis.';
    expect(await printWith([], text)).toEqual(['ERR_LOCK_QUORUM_UNREACHABLE', message]);
  });

  test('has a drop-in for node-redlock, for import and for require, whose errors are those of the lock', async () => {
    const both = await print(
      'compat.cjs',
      `const { LockError } = require('lockstep-redlock');
       const required = require('lockstep-redlock/compat');
       import('lockstep-redlock/compat').then(async ({ default: Redlock, ExecutionError }) => {
         const error = await new Redlock([{ openSession: () => ({}) }]).acquire(['a'], 0).catch((error) => error);
         const same = [Redlock === required.default, Redlock === required.Redlock, ExecutionError === required.ExecutionError];
         console.log(JSON.stringify({ same, isLockError: error instanceof LockError }));
         process.exit();
       });`,
    );
    expect(both).toEqual({ same: [true, true, true], isLockError: true });
  });

  test('has types for import and for require, where ioredis is not installed', async () => {
    const text = `
      import { type FencingToken, LockError, Redlock, type RedlockClient } from 'lockstep-redlock';
      export async function use(clients: RedlockClient[]): Promise<FencingToken | null> {
        const redlock: Redlock = new Redlock(clients, { retryCount: 1 });
        const lock = await redlock.acquire('a', 1000).catch((error: unknown) => {
          if (error instanceof LockError && error.code === 'ERR_LOCK_CONTENDED') return null;
          throw error;
        });
        return lock?.fencingToken ?? null;
      }
      import Compat, { ExecutionError } from 'lockstep-redlock/compat';
      export const compat = (clients: RedlockClient[]): Promise<string | ExecutionError> =>
        new Compat(clients).acquire(['a'], 1000).then(({ value }) => value, (error: ExecutionError) => error);`;
    const files = ['right.mts', 'right.cts', 'wrong.mts', 'wrong.cts'];
    for (const file of files)
      writeFileSync(join(folder, file), file.startsWith('right') ? text : text.replace('1000', "'1000'"));
    const checks = ['--ignoreConfig', '--noEmit', '--strict', '--skipLibCheck', 'false', '--module', 'nodenext'];
    const types = ['--target', 'es2022', '--types', 'node', '--typeRoots', join(ROOT, 'node_modules/@types')];
    const tsc = exec(join(ROOT, 'node_modules/.bin/tsc'), [...checks, ...types, ...files], { cwd: folder });
    const errors = await tsc.catch(({ stdout }: { stdout: string }) => stdout.match(/^\S+\(.*error \w+/gm));
    expect(errors).toEqual(['wrong.cts(5,49): error TS2345', 'wrong.mts(5,49): error TS2345']);
  });
});

describe.skipIf(!canRunOnRedis('the packed lock on three real nodes'))('the packed lock on three real nodes', () => {
  let nodes: Provision;

  beforeAll(async () => {
    nodes = await provision({ nodes: 3 });
    for (const name of ['ioredis', 'redis']) {
      symlinkSync(join(ROOT, 'node_modules', name), join(folder, 'node_modules', name));
    }
  });
  afterAll(() => nodes?.stop());

  const program = (): string => `
    const clients = ${JSON.stringify(nodes.urls)}.map((url) => new Redis(url));
    const redlock = new Redlock(clients, { nodeTimeoutMs: 2000 });
    (async () => {
      const lock = await redlock.acquire('packed', 20000);
      const other = await redlock.tryAcquire('packed', 20000);
      const { released } = await lock.release();
      const after = await redlock.tryAcquire('packed', 20000);
      await after.release();
      console.log(JSON.stringify({ votes: lock.votes.granted.length > 1, other, released: released > 1 }));
      await redlock.quit();
      for (const client of clients) client.disconnect();
    })();`;
  const locked = { votes: true, other: null, released: true };

  test('locks with import', async () => {
    const imports = "import { Redlock } from 'lockstep-redlock';\nimport { Redis } from 'ioredis';\n";
    expect(await print('lock.mjs', imports + program())).toEqual(locked);
  });

  test('locks with require', async () => {
    const requires = "const { Redlock } = require('lockstep-redlock');\nconst { Redis } = require('ioredis');\n";
    expect(await print('lock.cjs', requires + program())).toEqual(locked);
  });

  test.each(['ioredis', 'redis'])('locks at URLs with %s alone', async (name) => {
    const text = program()
      .replace('.map((url) => new Redis(url))', '')
      .replace(/for \(const client.*/, '');
    expect(await printWith([name], text)).toEqual(locked);
  });

  test('locks on clients of node-redis', async () => {
    const imports = "import { Redlock } from 'lockstep-redlock';\nimport { createClient } from 'redis';\n";
    const made = program()
      .replace('new Redis(url)', 'createClient({ url })')
      .replace(/for \(const client.*/, '');
    expect(await print('node-redis.mjs', imports + made)).toEqual(locked);
  });

  const codeOf = (language: string): string =>
    new RegExp(`\`\`\`${language}\\n(.*?)\`\`\``, 's').exec(readFileSync(join(HERE, 'README.md'), 'utf8'))?.[1] ?? '';

  test('does what its README says', async () => {
    const first = codeOf('js')
      .replace('[7001, 7002, 7003].map((port) => new Redis(port))', 'clients')
      .replace(/await fetch\(.*\);/, 'console.log(JSON.stringify({ aborted: signal.aborted }));');
    const clients = `const clients = ${JSON.stringify(nodes.urls)}.map((url) => new Redis(url));`;
    const { code } = transformSync(`{ ${codeOf('ts')} }`, { loader: 'ts', target: 'node20' });
    const end = 'for (const it of clients) it.disconnect();';
    expect(await print('readme.mjs', [clients, first, code, end].join('\n'))).toEqual({ aborted: false });
  });
});
