import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { SOCKET_CLIENTS } from '../../bench/socket-locks.js';
import { caught } from '../testing/expecting.js';
import { hashOf } from '../testing/print-hash.js';
import { expectSafe, UnsafeLockError } from '../testing.js';

const reportTo = mkdtempSync(join(tmpdir(), 'lockstep-'));

describe.each(Object.entries(SOCKET_CLIENTS))('a lock above %s, which opens its own connections', (id, makeFor) => {
  it('has one hash in 100 runs', async () => {
    const hashes = new Set<string>();
    for (let i = 0; i < 100; i++) hashes.add(await hashOf(id, 'seed', 3));
    expect(hashes.size).toBe(1);
  });

  it('passes where it releases only what is its own', async () => {
    // What breaks the connections of this one breaks its lock: see `false-lock.slow.test.ts`.
    const faults = id === 'node-redis 5' ? { faults: { loss: 0.05, delay: 0.1, partition: 2, pause: 1 } } : {};
    const { claims, runs } = await expectSafe(makeFor('own'), { runs: 13, nodes: 5, reportTo, ...faults });
    expect([runs, claims > 13]).toEqual([13, true]);
  });

  it('fails where it deletes keys, whosever they are', async () => {
    const error = await caught(expectSafe(makeFor('any'), { runs: 11, nodes: 5, reportTo }));
    if (!(error instanceof UnsafeLockError)) throw error;
    expect([error.kind, error.violation.property]).toEqual(['belief', 'mutual-exclusion']);
    expect(error.message).toContain('assumptions   all kept, so this is a bug of the lock');
  });
});
