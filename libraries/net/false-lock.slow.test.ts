import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { SOCKET_CLIENTS } from '../../bench/socket-locks.js';
import { caught } from '../testing/expecting.js';
import { expectSafe, type MakeLock, UnsafeLockError } from '../testing.js';

const reportTo = mkdtempSync(join(tmpdir(), 'lockstep-'));

function lockAbove(client: string): MakeLock {
  const makeFor = SOCKET_CLIENTS[client];
  if (makeFor === undefined) throw new Error(`no client ${client}`);
  return makeFor('own');
}

/*
 * A command waits for its turn to be written; the connection breaks, and those that wait for an answer are told; then the
 * command is written to the broken connection, and waits for an answer. On the next connection the first one that comes
 * is for something else.
 */
it('finds that node-redis 5.12.1 takes the answer to another command for that to SET NX', async () => {
  const error = await caught(expectSafe(lockAbove('node-redis 5'), { reportTo }));
  if (!(error instanceof UnsafeLockError)) throw error;
  expect(['belief', 'state']).toContain(error.kind);
  expect(error.message).toMatch(
    /reads that it is broken.*\n.*connects\n.*writes to the broken connection, where it is lost: SET a .* NX\n(?:.*writes +CLIENT SETINFO.*\n)+.*reads +\+OK/,
  );
});

it('does not find that in node-redis 6.3.1', async () => {
  expect(await expectSafe(lockAbove('node-redis 6'), { reportTo })).toMatchObject({ runs: 100 });
});
