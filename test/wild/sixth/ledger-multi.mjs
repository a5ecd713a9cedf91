import { createHash, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

// All accounts of a transfer are locked in one go, or none of them.
const LOCK_ALL = `
for _, key in ipairs(KEYS) do
  if redis.call('EXISTS', key) == 1 then return 0 end
end
for _, key in ipairs(KEYS) do
  redis.call('SET', key, ARGV[1], 'PX', ARGV[2])
end
return 1`;

const UNLOCK_ALL = `
local freed = 0
for _, key in ipairs(KEYS) do
  if redis.call('GET', key) == ARGV[1] then
    freed = freed + redis.call('DEL', key)
  end
end
return freed`;

const sha = new Map([LOCK_ALL, UNLOCK_ALL].map((script) => [script, createHash('sha1').update(script).digest('hex')]));

async function run(client, script, keys, args) {
  const options = { keys, arguments: args };
  try {
    return await client.evalSha(sha.get(script), options);
  } catch (err) {
    if (!String(err.message).startsWith('NOSCRIPT')) throw err;
    return client.eval(script, options);
  }
}

export class AccountsBusyError extends Error {}
export class LockRanOutError extends Error {}

/**
 * @param client a connected node-redis client
 * @param {string[]} accounts ids, in any order, repeated ones do no harm
 * @param {(check: () => void) => Promise<T>} fn is given a function that throws when the time is up
 * @template T
 * @returns {Promise<T>}
 */
export async function withAccounts(client, accounts, fn, { ttl = 10_000, timeout = 3_000 } = {}) {
  // the braces keep all keys in one slot of a cluster
  const keys = [...new Set(accounts)].map((id) => `{ledger}:lock:${id}`);
  const token = randomUUID();
  const started = performance.now();

  let deadline;
  for (;;) {
    deadline = performance.now() + ttl;
    if ((await run(client, LOCK_ALL, keys, [token, String(ttl)])) === 1) break;
    if (performance.now() - started > timeout) {
      throw new AccountsBusyError(accounts.join(', '));
    }
    await sleep(20 + Math.random() * 80);
  }

  const check = () => {
    if (performance.now() >= deadline) throw new LockRanOutError(accounts.join(', '));
  };

  try {
    check();
    return await fn(check);
  } finally {
    try {
      await run(client, UNLOCK_ALL, keys, [token]);
    } catch (err) {
      console.warn('unlock failed, the keys will expire', err);
    }
  }
}
