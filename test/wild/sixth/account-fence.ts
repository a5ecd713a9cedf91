import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', { keyPrefix: 'bank:' });

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

// Reads and writes both raise the fence, and neither is for holders of an older one.
const READ = `
if tonumber(ARGV[1]) < tonumber(redis.call('HGET', KEYS[1], 'fence') or '0') then
  return false
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1])
return redis.call('HGET', KEYS[1], 'balance') or '0'`;

const WRITE = `
if tonumber(ARGV[1]) < tonumber(redis.call('HGET', KEYS[1], 'fence') or '0') then
  return 0
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'balance', ARGV[2])
return 1`;

export class StaleLockError extends Error {}

export interface AccountLock {
  account: string;
  token: string;
  /** grows from one holder to the next */
  fence: number;
}

export async function lockAccount(account: string, ttl = 3_000): Promise<AccountLock | null> {
  const token = randomUUID();
  const reply = await redis.set(`${account}:lock`, token, 'PX', ttl, 'NX');
  if (reply !== 'OK') return null;
  return { account, token, fence: Date.now() };
}

export async function unlockAccount(lock: AccountLock): Promise<void> {
  await redis.eval(UNLOCK, 1, `${lock.account}:lock`, lock.token);
}

export async function readBalance(lock: AccountLock): Promise<number> {
  const balance = (await redis.eval(READ, 1, lock.account, lock.fence)) as string | null;
  if (balance === null) throw new StaleLockError(lock.account);
  return Number(balance);
}

export async function writeBalance(lock: AccountLock, balance: number): Promise<void> {
  const ok = await redis.eval(WRITE, 1, lock.account, lock.fence, balance);
  if (ok !== 1) throw new StaleLockError(lock.account);
}

export async function deposit(account: string, amount: number): Promise<number | null> {
  const lock = await lockAccount(account);
  if (!lock) return null;
  try {
    const balance = (await readBalance(lock)) + amount;
    await writeBalance(lock, balance);
    return balance;
  } finally {
    await unlockAccount(lock);
  }
}
