import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { natives } from './host/natives.js';
import { HandleLock, routineLock, tokenLock } from './testing/clients/right-locks.js';
import { WrongLock } from './testing/clients/wrong-lock.js';
import { expectSafe, UnsafeLockError } from './testing.js';

const reportTo = mkdtempSync(join(tmpdir(), 'lockstep-'));
/** Everything that a lock has to withstand, at once. */
const options = { faults: { crash: 1, skewMs: 50, partition: 1, loss: 0.02, delay: 0.05 }, runs: 25, reportTo };

async function caught(promise: Promise<unknown>): Promise<Error> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof Error) return error;
  }
  throw new Error('nothing was thrown');
}

describe('expectSafe', () => {
  it('catches a wrong lock, with a counterexample of at most 20 lines', async () => {
    const error = await caught(expectSafe(({ nodes }) => new WrongLock(nodes), options));
    if (!(error instanceof UnsafeLockError)) throw error;
    expect(error.message.trimEnd().split('\n').length).toBeLessThanOrEqual(21);
    expect(error.message).toContain('✗');
    expect(error.message.split('\n').every((line) => line.length <= 120)).toBe(true);
    const path = /replay\s+(\S+)/.exec(error.message)?.[1] ?? '';
    expect(existsSync(path)).toBe(true);
    const report = /report\s+(\S+\.html)/.exec(error.message)?.[1] ?? '';
    expect(readFileSync(report, 'utf8')).toContain('the client, unmodified, in the simulated world');
    expect(error.schedule.faults.length).toBeLessThanOrEqual(1);
  });

  it.each([
    ['handles', HandleLock],
    ['tokens and callbacks', tokenLock],
    ['routines', routineLock],
  ])('lets a right one pass: %s', async (_, make) => {
    const result = await expectSafe(
      ({ nodes }) => (make === HandleLock ? new HandleLock(nodes) : (make as typeof tokenLock)(nodes)),
      options,
    );
    expect(result.runs).toBe(25);
    expect(result.claims).toBeGreaterThan(20);
  });

  it('does not accuse a client that counts by a monotonic clock where a wall clock is set, and does one by that', async () => {
    const steps = { faults: { wallStep: 2 }, runs: 40, seed: 'steps', reportTo };
    expect((await expectSafe(({ nodes }) => new HandleLock(nodes), steps)).runs).toBe(40);
    const error = await caught(expectSafe(({ nodes }) => tokenLock(nodes), steps));
    expect(error.message).toContain('wall clock jumps');
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

  it('refuses what is no client, and does not pass where nothing was acquired', async () => {
    const nobody = await caught(expectSafe(() => ({}), options));
    expect(nobody.message).toContain('has to have acquire(resource, ttlMs)');
    const never = await caught(expectSafe(() => ({ acquire: () => null }), { runs: 2 }));
    expect(never.message).toContain('no client has ever acquired the lock in 2 cases');
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

  it('works under node:test', async () => {
    const script = new URL('./testing/with-node-test.ts', import.meta.url).pathname;
    const run = promisify(execFile);
    const { stdout } = await run(process.execPath, ['--import', 'tsx', '--test', '--test-reporter', 'tap', script]);
    expect(stdout).toMatch(/# pass 2/);
    expect(stdout).toMatch(/# fail 0/);
  });
});
