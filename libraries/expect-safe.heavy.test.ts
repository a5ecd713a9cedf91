import { existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { natives } from './runtime/natives.js';
import { lockOf } from './testing/blind/parts.js';
import { HandleLock, OneNodeLock, routineLock } from './testing/clients/right-locks.js';
import { WrongLock } from './testing/clients/wrong-lock.js';
import { caught, demanding } from './testing/expecting.js';
import { expectSafe, type LockUnderTest, type TestBed, UnsafeLockError, VIOLATION_KINDS } from './testing.js';

const reportTo = mkdtempSync(join(tmpdir(), 'lockstep-'));
const options = { ...demanding, reportTo };

/** The file that the message of a failure says to replay. */
function replayIn(error: Error): string {
  return /replay +expectSafe\(…, \{ replay: '(.+)' \}\)/.exec(error.message)?.[1] ?? '';
}

/** A lock that is wrong by itself, and that somebody mends. */
const broken = ({ nodes }: TestBed) => new WrongLock(nodes);
const mended = ({ nodes }: TestBed) => new HandleLock(nodes);

describe('expectSafe', () => {
  it('catches a wrong lock, with a counterexample of at most 20 lines', async () => {
    const error = await caught(expectSafe(({ nodes }) => new WrongLock(nodes), options));
    if (!(error instanceof UnsafeLockError)) throw error;
    expect(error.message.trimEnd().split('\n').length).toBeLessThanOrEqual(21);
    expect(error.message).toContain('✗');
    expect(error.message.split('\n').every((line) => line.length <= 120)).toBe(true);
    expect(error.message).toMatch(
      /\n {2}decided by {4}libraries\/testing\/clients\/wrong-lock\.ts:15:\d+ {3}DEL a of c\d\n/,
    );
    const path = replayIn(error);
    expect(existsSync(path)).toBe(true);
    const report = /report\s+(\S+\.html)/.exec(error.message)?.[1] ?? '';
    const page = readFileSync(report, 'utf8');
    expect(page).toContain('the client, unmodified, in the simulated world');
    expect(page).toContain('the code of the client is not in it.');
    expect(error.schedule.faults.length).toBeLessThanOrEqual(1);
  });

  it('tells of a failure whose file cannot be written', async () => {
    const inTheWay = join(reportTo, 'in-the-way');
    writeFileSync(inTheWay, '');
    const error = await caught(expectSafe(broken, { ...options, reportTo: join(inTheWay, 'x') }));
    expect(error).toBeInstanceOf(UnsafeLockError);
    expect(error.message).toContain('replay        none: its file could not be written');
    expect(error.message).toMatch(/\n {2}its file could not be written: (?:ENOTDIR|EEXIST).+\n$/);
    expect(replayIn(error)).toBe('');
  });

  it('is the same for the same seed, and another for another', async () => {
    const messages = [];
    for (const seed of ['a', 'a', 'b']) {
      messages.push((await caught(expectSafe(({ nodes }) => new WrongLock(nodes), { ...options, seed }))).message);
    }
    expect(messages[0]).toBe(messages[1]);
    expect(messages[0]).not.toBe(messages[2]);
  });

  it('names a client that is not deterministic, at the first event that differs', async () => {
    let calls = 0;
    const error = await caught(
      expectSafe(
        ({ nodes }) => ({
          async acquire(resource, ttlMs) {
            if (calls++ % 7 === 3) await new Promise((resolve) => setTimeout(resolve, 5));
            return new HandleLock(nodes).acquire(resource, ttlMs);
          },
        }),
        options,
      ),
    );
    expect(error.name).toBe('NondeterministicClientError');
    expect(error.message).toMatch(/^your client is not deterministic at event \d+ of case \d+: /);
  });

  it('refuses a client that has taken native timers, by their name', async () => {
    const error = await caught(
      expectSafe(
        ({ nodes }) => ({
          async acquire(resource, ttlMs) {
            await new Promise((resolve) => natives.setTimeout(resolve, 1));
            return new HandleLock(nodes).acquire(resource, ttlMs);
          },
        }),
        { ...options, runs: 2 },
      ),
    );
    expect(error.name).toBe('UnsupportedClient');
    expect(error.message).toMatch(/native setTimeout.*Import lockstep\/testing before the client/);
  });

  it('refuses a client that has taken the native clock', async () => {
    const error = await caught(
      expectSafe(
        () => ({ acquire: (_, ttlMs) => ({ expiresAt: performance.timeOrigin + ttlMs, release: () => undefined }) }),
        options,
      ),
    );
    expect(error.name).toBe('UnsupportedClient');
    expect(error.message).toContain('it has taken Date, or Date.now');
  });

  it.each([
    ['calls process.exit', () => process.exit(0)],
    ['calls process.kill', () => process.kill(process.pid, 'SIGKILL')],
    [
      'reads its clock again and again',
      () => {
        for (const end = Date.now() + 50; Date.now() < end; );
      },
    ],
    [
      'reads its clock again and again',
      async () => {
        for (const end = performance.now() + 50; performance.now() < end; ) await null;
      },
    ],
  ])('refuses a client that %s', async (what, acquire) => {
    const error = await caught(expectSafe(() => ({ acquire, release: () => undefined }), { runs: 2, reportTo }));
    expect([error.name, error.message]).toEqual(['UnsupportedClient', expect.stringContaining(`c1 ${what}`)]);
  });

  it('refuses what is no client, and does not pass where nothing was acquired', async () => {
    const nobody = await caught(expectSafe(() => ({}), options));
    expect(nobody.message).toContain('has to have acquire(resource, ttlMs)');
    const nothing = await caught(expectSafe(JSON.parse('{}')));
    expect(nothing.message).toContain('has to be a function that makes the client');
    const never = await caught(expectSafe(() => ({ acquire: () => null }), { runs: 2 }));
    expect(never.message).toContain('no client has ever acquired the lock in 2 cases');
    const throws = () => ({ acquire: (resource: string) => Promise.reject(new TypeError(`no ${resource}.foo`)) });
    const always = await caught(expectSafe(throws, { runs: 2 }));
    expect(always.message).toMatch(/nothing was tested; its acquire was last rejected with TypeError: no a\.foo$/);
    expect(always.cause).toBeInstanceOf(TypeError);
  });

  it('hands on what the client throws where nobody catches it', async () => {
    const error = await caught(
      expectSafe(
        ({ nodes }) => ({
          acquire(resource, ttlMs) {
            setTimeout(() => {
              throw new Error('mine');
            }, 1);
            return new HandleLock(nodes).acquire(resource, ttlMs);
          },
        }),
        { ...options, runs: 2 },
      ),
    );
    expect(error.cause).toMatchObject({ message: 'mine' });
  });

  it('refuses an option that it does not know, before anything is run', async () => {
    const mistyped = JSON.parse('{ "nodes": 1, "faults": { "crashes": 1 }, "restartDelayMs": 0 }');
    const { name, message } = await caught(expectSafe(({ nodes: [node] }) => new OneNodeLock(node), mistyped));
    expect([name, message]).toEqual([
      'InputError',
      'expectSafe: faults.crashes: not a field of faults; did you mean "crash"?',
    ]);
  });

  it('runs the schedule of a failure again, and nothing else', async () => {
    const first = await caught(expectSafe(broken, options));
    const replay = replayIn(first);
    const again = await caught(expectSafe(broken, { ...options, replay }));
    if (!(first instanceof UnsafeLockError && again instanceof UnsafeLockError)) throw again;
    expect([again.kind, again.schedule, replayIn(again)]).toEqual([first.kind, first.schedule, replay]);
    expect(again.message).not.toContain('run 1/');
    expect(await expectSafe(mended, { ...options, replay })).toMatchObject({ runs: 1 });
    const none = await caught(expectSafe(mended, { replay: 'nowhere.json' }));
    expect(none.message).toContain('expectSafe: replay: nowhere.json cannot be read');
  });

  it('runs the schedule of a failure once for who debugs, and shows what happens as it does', async () => {
    const replay = replayIn(await caught(expectSafe(broken, options)));
    const printed: string[] = [];
    const { error, log } = console;
    console.error = (line: string) => printed.push(line);
    console.log = (...words: unknown[]) => printed.push(words.join(' '));
    const talking = ({ nodes }: TestBed) => {
      const inner = new WrongLock(nodes);
      const acquire = (resource: string, ttlMs: number) => {
        console.log('asks', ttlMs);
        return inner.acquire(resource, ttlMs);
      };
      return { acquire };
    };
    try {
      const found = await caught(expectSafe(talking, { replay, debug: true }));
      expect(found).toBeInstanceOf(UnsafeLockError);
      expect(found.message).toMatch(/^the lock is not safe \(kind \w+, property .+\)\n {2}c\d .+$/);
      const ofBroken = printed.length;
      expect(await expectSafe(mended, { replay, debug: true })).toMatchObject({ runs: 1 });
      expect(printed.slice(ofBroken).some((line) => line.includes(' ms  ✗ '))).toBe(false);
    } finally {
      Object.assign(console, { error, log });
    }
    const own = printed.filter((line) => /^ +\d+\.\d{3} ms {2}c\d {3}\| asks \d+$/.test(line));
    // Once each; what a search learns of a client before is not shown.
    const firstRun = printed.slice(0, printed.findLastIndex((line) => line.includes('| asks')) + 1);
    expect(firstRun.filter((line) => /c\d {3}call {2}a$/.test(line)).length).toBe(own.length);
    expect(own.length).toBeGreaterThan(0);
    expect(printed.some((line) => /^ +\d+\.\d{3} ms {2}n\d {3}execute {2}DEL a {2}of c\d$/.test(line))).toBe(true);
    expect(printed.filter((line) => line.includes(' ms  ✗ ')).length).toBeGreaterThan(0);
    const misused = await caught(expectSafe(broken, { debug: true }));
    expect(misused.message).toBe('expectSafe: debug: it needs replay, the file of a failure');
  });

  it('writes each failure to a file of its own', async () => {
    const one = await caught(expectSafe(broken, options));
    const other = await caught(expectSafe(broken, { ...options, ttlMs: 5_000 }));
    const [a, b] = [replayIn(one), replayIn(other)];
    expect(a).not.toBe(b);
    expect(readFileSync(a, 'utf8')).toContain('"ttlMs": 10000');
    expect(readFileSync(b, 'utf8')).toContain('"ttlMs": 5000');
  });

  it('asks whether a lock that talks to one node of five is for one node', async () => {
    const one = ({ nodes: [node] }: TestBed) => new OneNodeLock(node);
    const hint = 'no client has ever asked more than one of its 5 nodes; did you mean nodes: 1?';
    expect((await caught(expectSafe(one, { runs: 5, reportTo }))).message).toContain(hint);
    expect((await expectSafe(one, { runs: 20, nodes: 1, faults: { partition: 1 }, reportTo })).runs).toBe(20);
    expect((await caught(expectSafe(broken, options))).message).not.toContain('did you mean nodes');
  });

  it('says so too where all connections of a lock lead to one node, so that it never acquires', async () => {
    const same = ({ nodes: [node] }: TestBed) => lockOf([node, node, node]);
    expect((await caught(expectSafe(same, { runs: 2, reportTo }))).message).toMatch(
      /nothing was tested; no client has ever asked more than one of its 5 nodes$/,
    );
  });

  it('names a call that nodes do not support, though the client catches the error', async () => {
    const watching = ({ nodes: [node] }: TestBed): LockUnderTest => ({
      acquire: (key) => node.watch(key).then(null, () => null),
      release: () => {},
    });
    expect((await caught(expectSafe(watching, { runs: 2, reportTo }))).message).toBe(
      'no client has ever acquired the lock in 2 cases, so nothing was tested; the client calls watch() on one of nodes, which keep no state of a connection: connect with ioredis to addresses, as new Redis(addresses[0].url)',
    );
  });

  it('says what nothing could bring about, and does not pass where that is all', async () => {
    const calm = { runs: 3, reportTo };
    expect((await expectSafe(mended, { ...calm, kinds: VIOLATION_KINDS })).untested).toEqual([
      'effect',
      'continuity',
      'signal',
    ]);
    const routines = ({ nodes }: TestBed) => routineLock(nodes);
    expect((await expectSafe(routines, { ...calm, kinds: ['belief', 'signal'] })).untested).toEqual([]);
    const error = await caught(expectSafe(mended, { ...calm, kinds: ['effect'] }));
    expect(error.message).toBe('nothing in these options can bring about effect, so nothing was tested');
  });

  it.each([
    [{ expiresAt: '2033-05-18' }, 'expiresAt of its held lock has to be ms as of Date.now(), or a Date'],
    [{ remaining: () => Number.NaN }, 'remaining() of its held lock has to be a method that returns the ms left'],
    [{ isHeld: async () => true }, 'isHeld of its held lock has to be true or false, or a method'],
  ])('refuses a held lock that says nothing it could read: %o', async (says, problem) => {
    const held = { ...says, release: () => undefined };
    const error = await caught(expectSafe(() => ({ acquire: () => held }), options));
    expect([error.name, error.message]).toEqual(['UnsupportedClient', expect.stringContaining(problem)]);
  });

  it('refuses a lock that cannot be released, and a promise of a client', async () => {
    const kept = await caught(expectSafe(() => ({ acquire: () => 'token' }), options));
    expect(kept.message).toContain('the client has no release(held, resource), and its held lock has neither');
    const later = await caught(expectSafe(() => JSON.parse('{ "acquire": 1 }'), options));
    expect(later.message).toContain('acquire of the client has to be a function');
  });

  it('runs one search at a time, and ends one whose signal aborts', async () => {
    const listeners = process.listenerCount('unhandledRejection');
    let most = 0;
    const watched = (bed: TestBed) => {
      most = Math.max(most, process.listenerCount('unhandledRejection'));
      return mended(bed);
    };
    const controller = new AbortController();
    const all = Array.from({ length: 12 }, () => expectSafe(watched, { runs: 2 }));
    const endless = expectSafe(watched, { runs: 1_000_000, signal: controller.signal });
    const behind = expectSafe(watched, { runs: 2 });
    setTimeout(() => controller.abort(new Error('out of time')), 50);
    expect((await caught(endless)).message).toBe('out of time');
    expect((await Promise.all([...all, behind])).map(({ runs }) => runs)).toEqual(new Array(13).fill(2));
    expect(most).toBe(1);
    expect(process.listenerCount('unhandledRejection')).toBe(listeners);
  });
});
