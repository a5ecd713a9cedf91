import { randomUUID } from 'node:crypto';
import Redis from 'iovalkey';

const db = new Redis('redis://localhost:6379/0', { commandTimeout: 1000, maxRetriesPerRequest: 1 });
db.on('error', () => {});

const unlockScript =
  'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end';

/** Imports of one supplier must not overlap. Resolves to a function that releases, or to false. */
export async function obtain(supplier) {
  const key = `import:${supplier}:mutex`;
  const id = randomUUID();
  const won = await db.setnx(key, id);
  if (won === 0) return false;
  return () => db.eval(unlockScript, 1, key, id);
}

export async function importOnce(supplier, run) {
  const done = await obtain(supplier);
  if (!done) return { skipped: true };
  try {
    return { skipped: false, rows: await run() };
  } finally {
    await done();
  }
}
