import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

// Merges duplicate customer accounts into one. Everything that touches an
// account (orders, consents, merges) goes through the same per-account lock.

const LOCK_MS = 30 * 60_000;
const MERGE_BUDGET_MS = 10 * 60_000;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export interface AccountStore {
  moveOrders(from: string, into: string, signal: AbortSignal): Promise<number>;
  moveConsents(from: string, into: string, signal: AbortSignal): Promise<void>;
  deactivate(accountId: string, signal: AbortSignal): Promise<void>;
}

interface AccountLocks {
  token: string;
  keys: string[];
}

const keyOf = (accountId: string) => `account:${accountId}:lock`;

async function lockAccounts(redis: Redis, accountIds: string[]): Promise<AccountLocks | null> {
  const token = randomUUID();
  const keys: string[] = [];
  // always in the same order, so that two merges cannot block each other
  for (const id of [...new Set(accountIds)].sort()) {
    const key = keyOf(id);
    const reply = await redis.set(key, token, 'PX', LOCK_MS, 'NX');
    if (reply !== 'OK') return null;
    keys.push(key);
  }
  return { token, keys };
}

async function unlockAccounts(redis: Redis, locks: AccountLocks): Promise<void> {
  for (const key of locks.keys.toReversed()) {
    await redis.eval(RELEASE, 1, key, locks.token).catch((err) => {
      console.warn(`account-merge: ${key} left to expire`, err);
    });
  }
}

export type MergeResult = { status: 'merged'; orders: number } | { status: 'busy' };

export async function mergeAccounts(
  redis: Redis,
  store: AccountStore,
  into: string,
  duplicates: string[],
): Promise<MergeResult> {
  const locks = await lockAccounts(redis, [into, ...duplicates]);
  if (!locks) return { status: 'busy' };
  try {
    const signal = AbortSignal.timeout(MERGE_BUDGET_MS);
    let orders = 0;
    for (const duplicate of duplicates) {
      signal.throwIfAborted();
      if (duplicate === into) continue;
      orders += await store.moveOrders(duplicate, into, signal);
      await store.moveConsents(duplicate, into, signal);
      await store.deactivate(duplicate, signal);
    }
    return { status: 'merged', orders };
  } finally {
    await unlockAccounts(redis, locks);
  }
}
