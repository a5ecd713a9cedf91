import { randomUUID } from 'node:crypto';

/**
 * Takes several locks at once: all of them or none. There is no order in which
 * they are taken, hence no deadlock between transfer(a, b) and transfer(b, a).
 *
 * One Redis (no cluster), see the {acct} tag should that ever change.
 */
const LOCK_ALL = `
for i = 1, #KEYS do
  if redis.call('exists', KEYS[i]) == 1 then return 0 end
end
for i = 1, #KEYS do
  redis.call('set', KEYS[i], ARGV[1], 'px', ARGV[2])
end
return 1
`;

const UNLOCK_ALL = `
local n = 0
for i = 1, #KEYS do
  if redis.call('get', KEYS[i]) == ARGV[1] then
    n = n + redis.call('del', KEYS[i])
  end
end
return n
`;

export function installLocks(redis) {
  redis.defineCommand('lockAll', { lua: LOCK_ALL });
  redis.defineCommand('unlockAll', { lua: UNLOCK_ALL });
  return redis;
}

export async function withLocks(redis, names, { ttl = 10_000, wait = 3_000 } = {}, fn) {
  const keys = [...new Set(names)].map((n) => `{acct}:lock:${n}`);
  const token = randomUUID();
  const until = Date.now() + wait;

  try {
    while ((await redis.lockAll(keys.length, ...keys, token, ttl)) !== 1) {
      if (Date.now() > until) {
        throw Object.assign(new Error('accounts are busy'), { code: 'EBUSY', status: 503 });
      }
      await new Promise((r) => setTimeout(r, 20 + Math.random() * 80));
    }
    return await fn();
  } finally {
    // Harmless if we hold nothing: only keys with our token are removed.
    await redis.unlockAll(keys.length, ...keys, token).catch((e) => {
      console.warn('unlockAll', e.message);
    });
  }
}

/**
 * The Redis locks keep a burst of transfers on a hot account out of the
 * connection pool. What makes the transfer correct are the row locks below, so
 * it does not matter if a lock should run out while Postgres is slow.
 */
export function createTransfers({ redis, knex }) {
  installLocks(redis);

  return async function transfer(from, to, cents) {
    if (from === to) throw new Error('same account');
    if (!Number.isSafeInteger(cents) || cents <= 0) throw new Error('bad amount');

    return withLocks(redis, [from, to], { ttl: 10_000 }, () =>
      knex.transaction(async (trx) => {
        await trx.raw('set local statement_timeout = 2000');
        const rows = await trx('accounts')
          .whereIn('id', [from, to])
          .orderBy('id')
          .forUpdate()
          .select('id', 'cents');
        if (rows.length !== 2) throw new Error('no such account');

        const source = rows.find((r) => r.id === from);
        if (Number(source.cents) < cents) {
          throw Object.assign(new Error('insufficient funds'), { status: 422 });
        }
        await trx('accounts').where({ id: from }).decrement('cents', cents);
        await trx('accounts').where({ id: to }).increment('cents', cents);
        const [entry] = await trx('transfers').insert({ from, to, cents }).returning('id');
        return entry.id;
      }),
    );
  };
}
