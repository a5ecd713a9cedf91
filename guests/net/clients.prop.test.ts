import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { SOCKET_CLIENTS } from '../testing/clients/socket-locks.js';
import { caught } from '../testing/expecting.js';
import { expectSafe, UnsafeLockError } from '../testing.js';

const reportTo = mkdtempSync(join(tmpdir(), 'lockstep-'));

describe.each(Object.entries(SOCKET_CLIENTS))('a lock above %s, which opens its own connections', (_, makeFor) => {
  it('passes where it gives back only what is its own', async () => {
    const { claims, runs } = await expectSafe(makeFor('own'), { runs: 11, nodes: 5, reportTo });
    expect([runs, claims > 11]).toEqual([11, true]);
  });

  it('fails where it deletes keys, whosever they are', async () => {
    const error = await caught(expectSafe(makeFor('any'), { runs: 11, nodes: 5, reportTo }));
    if (!(error instanceof UnsafeLockError)) throw error;
    expect([error.kind, error.violation.property]).toEqual(['belief', 'mutual-exclusion']);
    expect(error.message).toContain('assumptions   all kept, so this is a bug of the lock');
  });
});
