import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { transform } from 'esbuild';
import { Redis } from 'ioredis';
import { Redlock } from 'lockstep-redlock';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Acquisition } from '../advise/library.js';
import { LIBRARIES } from '../advise/library-list.js';
import { findServerProgram } from '../real/provisioner/processes.js';
import { canRun, canRunOnRedis } from '../real/testing/can-run.js';

/*
 * The lines for clients, as they are printed: those for npm libraries lock on real servers; those in other languages are
 * compiled, and run where that needs no build, with a stand-in for the library.
 */

const require = createRequire(import.meta.url);
const PLAIN: Acquisition = {
  ttlMs: 8000,
  factor: '0.014',
  timeoutFactor: null,
  fencing: false,
  ownTokens: false,
  workMs: 3000,
  guarded: true,
};
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
  const guard = wanted.guarded ? library.guard(100, wanted.ttlMs) : [];
  // A write is a part of the work.
  return library.acquire(wanted).flatMap((line) => {
    const indent = /^\s*/.exec(line)?.[0] ?? '';
    return /\bwork\(/i.test(line) ? [...guard.map((it) => `${indent}${it}`), line] : [line];
  });
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

  const tokensOf = (name: string): Promise<(string | null)[]> => Promise.all(clients.map((it) => it.get(name)));

  it.each(cases)('$profile acquires with them: $wanted', async ({ profile, wanted }) => {
    const name = `${profile}:${wanted.ownTokens}`;
    // The first try fails: somebody else has the lock.
    if (wanted.ownTokens) await Promise.all(clients.map((it) => it.set(name, 'other', 'PX', HELD_MS)));
    if (wanted.fencing) await new Redlock(clients, { fencing: true }).recoverFencing(0);
    const { code } = await transform(
      `async function run(Redlock, clients, name, work) {\n${linesOf(profile, wanted).join('\n')}\n}`,
      { loader: 'ts', target: 'es2022' },
    );
    const run = new Function(`${code}\nreturn run;`)() as (...given: readonly unknown[]) => Promise<void>;
    let seen: string | null = null;
    const work = async (signal: AbortSignal): Promise<void> => {
      expect(signal.aborted).toBe(false);
      const tokens = await tokensOf(name);
      seen = tokens.find((it) => it !== null && tokens.filter((other) => other === it).length > NODES / 2) ?? null;
    };
    await run(CONSTRUCTORS[profile], clients, name, work);
    expect(seen).toMatch(/^.{10,}$/);
    expect(seen).not.toBe('other');
    // It is released at the end.
    await expect.poll(() => tokensOf(name)).not.toContain(seen);
  });
});

/** A language, and a library in it with no more than the lines ask for. */
interface Language {
  readonly profile: string;
  /** The program that has to be there. */
  readonly program: string;
  /** All files, with these lines in one of them. */
  readonly files: (lines: readonly string[]) => Readonly<Record<string, string>>;
  readonly command: readonly string[];
  /** What it prints if all is well. Default: nothing. */
  readonly prints?: string;
}

const GO_MODULE = 'github.com/go-redsync/redsync/v4';

function goFiles(lines: readonly string[], tellsUntil: boolean): Record<string, string> {
  const body = lines.map((it) => `\t${it}\n`).join('');
  // The lines name what they need; a guard that is put into them needs errors.
  const [, named = ''] = /^\/\/ imports, besides redsync: (.*)$/m.exec(lines.join('\n')) ?? [];
  const all = new Set([...named.split(', '), ...(body.includes('errors.') ? ['errors'] : []), 'context']);
  const imports = `${[...all]
    .toSorted()
    .map((it) => `\t"${it}"\n`)
    .join('')}\n\t"${GO_MODULE}"\n`;
  return {
    'go.mod': `module lock\n\ngo 1.19\n\nrequire ${GO_MODULE} v4.0.0\n\nreplace ${GO_MODULE} => ./redsync\n`,
    'redsync/go.mod': `module ${GO_MODULE}\n\ngo 1.19\n`,
    'redsync/redsync.go': [
      'package redsync',
      'import ("context"; "time")',
      'type Option interface{ Apply(*Mutex) }',
      'type Mutex struct{}',
      'type Redsync struct{}',
      'var _ context.Context',
      'func (*Redsync) NewMutex(string, ...Option) *Mutex { return nil }',
      'func WithExpiry(time.Duration) Option { return nil }',
      'func WithDriftFactor(float64) Option { return nil }',
      'func WithTimeoutFactor(float64) Option { return nil }',
      'func WithTries(int) Option { return nil }',
      'func (*Mutex) Lock() error { return nil }',
      'func (*Mutex) Unlock() (bool, error) { return true, nil }',
      ...(tellsUntil
        ? [
            'func (*Mutex) LockContext(context.Context) error { return nil }',
            'func (*Mutex) Until() time.Time { return time.Time{} }',
          ]
        : []),
      '',
    ].join('\n'),
    'lock.go': `package lock\n\nimport (\n${imports})\n\nfunc lock(ctx context.Context, rs *redsync.Redsync, name string, work func(context.Context) error) error {\n${body}}\n`,
  };
}

function csharpFile(lines: readonly string[]): string {
  const usings = lines[0]?.replace('// ', '').replace('using Medallion.Threading.Redis; ', '') ?? '';
  return `${usings} using System.Collections.Generic; using System.Threading.Tasks;
interface IDatabase {}
class Options { public Options Expiry(TimeSpan it) { return this; } public Options MinValidityTime(TimeSpan it) { return this; } }
abstract class Handle : IDisposable { public abstract CancellationToken HandleLostToken { get; } public abstract void Dispose(); }
class RedisDistributedLock {
  public RedisDistributedLock(string name, IEnumerable<IDatabase> databases, Action<Options> options) {}
  public Task<Handle> AcquireAsync(TimeSpan? timeout = null, CancellationToken token = default(CancellationToken)) { return null; }
}
abstract class Lock {
  protected abstract Task Work(CancellationToken token);
  public async Task Run(string name, IDatabase[] databases) {
${lines.join('\n')}
  }
}
`;
}

const PYTHON = `import time
from collections import namedtuple
class Dlm:
    def lock(self, name, ttl): return namedtuple("Lock", "validity")(ttl)
    def unlock(self, lock): print("released")
def work(until): print("worked", 2 < until - time.monotonic() <= 3)
dlm, name = Dlm(), "a"
`;

const PHP = `<?php
class RedLock {
    function __construct(array $servers) {}
    function lock($name, $ttl) { return ['validity' => $ttl]; }
    function unlock($lock) { echo "released\\n"; }
}
function work($until) { $left = $until - hrtime(true); echo 'worked ', $left > 2e9 && $left <= 3e9 ? 'True' : 'False', "\\n"; }
$servers = []; $redLock = new RedLock($servers); $name = 'a';
`;

const LANGUAGES: readonly Language[] = [
  ...['redsync-4', 'redsync-2020'].map((profile) => ({
    profile,
    program: 'gofmt',
    files: (lines: readonly string[]) => goFiles(lines, profile === 'redsync-4'),
    // gofmt names files that are laid out in another way.
    command: ['sh', '-c', 'gofmt -e -l lock.go && GOFLAGS=-mod=mod GOPROXY=off go vet .'],
  })),
  {
    profile: 'redlock-py',
    program: 'python3',
    files: (lines) => ({ 'lock.py': `${PYTHON}${lines.join('\n')}\n` }),
    command: ['python3', 'lock.py'],
    prints: 'worked True\nreleased\n',
  },
  {
    profile: 'redlock-php',
    program: 'php',
    files: (lines) => ({ 'lock.php': `${PHP}${lines.join('\n')}\n` }),
    command: ['php', 'lock.php'],
    prints: 'worked True\nreleased\n',
  },
  {
    profile: 'redisson',
    program: 'javac',
    files: (lines) => ({
      'Lock.java': `import java.util.concurrent.TimeUnit;
abstract class Lock {
  interface RLock { boolean tryLock(long wait, long lease, TimeUnit unit) throws InterruptedException; void unlock(); }
  abstract void work(long until);
  void run(RLock redLock) throws InterruptedException {
${lines.join('\n')}
  }
}
`,
    }),
    command: ['javac', '-Xlint:all', '-Werror', 'Lock.java'],
  },
  {
    profile: 'distributed-lock-redis',
    program: 'mcs',
    files: (lines) => ({ 'Lock.cs': csharpFile(lines) }),
    command: ['mcs', '-warnaserror', '-target:library', 'Lock.cs'],
  },
];

describe.each(LANGUAGES)('lines for $profile', ({ profile, program, files, command, prints = '' }) => {
  const lacking = spawnSync(program, ['--version']).error === undefined ? undefined : `there is no ${program}`;
  const isThere = canRun(`lines for ${profile}`, 'compilers', lacking);
  const hasLoop = LIBRARIES[profile]?.tryOnce !== undefined;
  const cases = [false, ...(hasLoop ? [true] : [])].flatMap((ownTokens) =>
    [false, true].map((guarded) => ({ ownTokens, guarded })),
  );

  it.skipIf(!isThere).each(cases)(`are taken by ${program}: %j`, { timeout: 60_000 }, (wanted) => {
    const read = (lines: readonly string[]): { status: number | null; stdout: string; stderr: string } => {
      const folder = mkdtempSync(join(tmpdir(), 'lockstep-lines-'));
      for (const [name, text] of Object.entries(files(lines))) {
        mkdirSync(dirname(join(folder, name)), { recursive: true });
        writeFileSync(join(folder, name), text);
      }
      const [called = '', ...args] = command;
      return spawnSync(called, args, { encoding: 'utf8', cwd: folder });
    };
    const lines = linesOf(profile, { ...PLAIN, ...wanted });
    expect(read(lines), lines.join('\n')).toMatchObject({ status: 0, stderr: '', stdout: prints });
    // It does look at what it is given.
    const wrong = lines.map((line) => line.replace(/\bname\b/, 'nobody').replace('redLock.unlock', 'redLock.nothing'));
    expect(read(wrong)).not.toMatchObject({ status: 0, stderr: '', stdout: prints });
  });
});
