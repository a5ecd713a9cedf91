import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { transform } from 'esbuild';
import { Redis } from 'ioredis';
import { Redlock } from 'lockstep-redlock';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Acquisition } from '../advise/library.js';
import { LIBRARIES } from '../advise/library-list.js';
import { findServerProgram } from '../real/provisioner/processes.js';
import { canRunOnRedis } from '../real/testing/can-run.js';

/*
 * The lines for clients, as they are printed: those for npm libraries acquire a lock on real servers; those in other languages
 * are read by the compiler or interpreter, where there is one.
 */

const require = createRequire(import.meta.url);
const PLAIN: Acquisition = { ttlMs: 8000, factor: '0.013488', fencing: false, ownTokens: false };
const NODES = 3;
const HELD_MS = 300;

/** The constructor that the lines call `Redlock`, by the profile of its library. */
const CONSTRUCTORS: Readonly<Record<string, unknown>> = {
  reference: Redlock,
  'node-redlock-4': require('redlock4'),
  'node-redlock-5': (require('redlock5') as { default: unknown }).default,
  'sesamecare-redlock': (require('@sesamecare-oss/redlock') as { Redlock: unknown }).Redlock,
};

function linesOf(profile: string, wanted: Acquisition): string[] {
  const library = LIBRARIES[profile];
  if (library === undefined) throw new Error(`${profile} is no library`);
  return [...library.acquire(wanted), ...library.guard(100, wanted.ttlMs)];
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === 'object' && address !== null ? address.port : 0;
}

const title = 'lines for npm clients';
describe.skipIf(!canRunOnRedis(title, 'processes'))(title, () => {
  const servers: ChildProcess[] = [];
  const clients: Redis[] = [];

  beforeAll(async () => {
    const program = findServerProgram(process.env.PATH) ?? 'redis-server';
    for (let i = 0; i < NODES; i++) {
      const port = await freePort();
      servers.push(spawn(program, ['--port', String(port), '--save', '', '--bind', '127.0.0.1'], { stdio: 'ignore' }));
      const client = new Redis(port, { retryStrategy: () => 20, maxRetriesPerRequest: null });
      client.on('error', () => {});
      clients.push(client);
      await client.ping();
    }
  });

  afterAll(() => {
    for (const client of clients) client.disconnect();
    for (const server of servers) server.kill('SIGKILL');
  });

  const cases = Object.keys(CONSTRUCTORS).flatMap((profile) => [
    { profile, wanted: { ...PLAIN, fencing: LIBRARIES[profile]?.fencing === true } },
    ...(LIBRARIES[profile]?.tryOnce === undefined ? [] : [{ profile, wanted: { ...PLAIN, ownTokens: true } }]),
  ]);

  it.each(cases)('$profile acquires with them: $wanted', async ({ profile, wanted }) => {
    const name = `${profile}:${wanted.ownTokens}`;
    // The first try fails: somebody else has the lock.
    if (wanted.ownTokens) await Promise.all(clients.map((it) => it.set(name, 'other', 'PX', HELD_MS)));
    if (wanted.fencing) await new Redlock(clients, { fencing: true }).recoverFencing(0);
    const body = [...linesOf(profile, wanted), 'return seen(await clients[0].get(name));'].join('\n');
    const { code } = await transform(`async function run(Redlock, clients, name, seen) {\n${body}\n}`, {
      loader: 'ts',
      target: 'es2022',
    });
    const run = new Function(`${code}\nreturn run;`)() as (...given: readonly unknown[]) => Promise<string>;
    const token = await run(CONSTRUCTORS[profile], clients, name, (it: unknown) => it);
    expect(token).toMatch(/^.{10,}$/);
    expect(token).not.toBe('other');
  });
});

interface Language {
  readonly profile: string;
  readonly program: string;
  readonly file: string;
  readonly args: readonly string[];
  /** A whole file of these lines. */
  readonly whole: (lines: readonly string[]) => string;
}

const LANGUAGES: readonly Language[] = [
  ...['redsync-4', 'redsync-2020'].map((profile) => ({
    profile,
    program: 'gofmt',
    file: 'lock.go',
    args: ['-e', '-l'],
    whole: (lines: readonly string[]) =>
      `package lock\n\nfunc lock() error {\n${lines.map((it) => `\t${it}\n`).join('')}\treturn nil\n}\n`,
  })),
  {
    profile: 'redlock-py',
    program: 'python3',
    file: 'lock.py',
    args: ['-m', 'py_compile'],
    whole: (lines) => `${lines.join('\n')}\n`,
  },
  {
    profile: 'redlock-php',
    program: 'php',
    file: 'lock.php',
    args: ['-l'],
    whole: (lines) => `<?php\n${lines.join('\n')}\n`,
  },
];

describe.each(LANGUAGES)('lines for $profile', ({ profile, program, file, args, whole }) => {
  const isThere = spawnSync(program, ['--version']).error === undefined;

  it.skipIf(!isThere).each([false, true])(`are read by ${program}, own tokens: %s`, (ownTokens) => {
    const path = join(mkdtempSync(join(tmpdir(), 'lockstep-lines-')), file);
    const read = (text: string): { status: number | null; stdout: string; stderr: string } => {
      writeFileSync(path, text);
      return spawnSync(program, [...args, path], { encoding: 'utf8' });
    };
    const lines = linesOf(profile, { ...PLAIN, ownTokens });
    expect(read(whole(lines)), lines.join('\n')).toMatchObject({ status: 0, stderr: '' });
    // gofmt names files that are laid out in another way.
    if (program === 'gofmt') expect(read(whole(lines)).stdout).toBe('');
    expect(read(whole([...lines, 'if ('])).status).not.toBe(0);
  });
});
