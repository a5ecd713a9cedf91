import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';

const ACQUIRE = `
for _, k in ipairs(KEYS) do
  local owner = redis.call('GET', k)
  if owner and owner ~= ARGV[1] then return 0 end
end
for _, k in ipairs(KEYS) do redis.call('SET', k, ARGV[1], 'PX', ARGV[2]) end
return 1`;

const EXTEND = `
for _, k in ipairs(KEYS) do
  if redis.call('GET', k) ~= ARGV[1] then return 0 end
end
for _, k in ipairs(KEYS) do redis.call('PEXPIRE', k, ARGV[2]) end
return 1`;

const RELEASE = `
local n = 0
for _, k in ipairs(KEYS) do
  if redis.call('GET', k) == ARGV[1] then n = n + redis.call('DEL', k) end
end
return n`;

// KEYS: lock a, lock b, balance a, balance b, marker. ARGV: token, amount.
const COMMIT = `
if redis.call('EXISTS', KEYS[5]) == 1 then return 'done' end
if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('GET', KEYS[2]) ~= ARGV[1] then return 'lost' end
if tonumber(redis.call('GET', KEYS[3]) or '0') < tonumber(ARGV[2]) then return 'poor' end
redis.call('DECRBY', KEYS[3], ARGV[2])
redis.call('INCRBY', KEYS[4], ARGV[2])
redis.call('SET', KEYS[5], '1', 'EX', 604800)
return 'done'`;

/** All of the given names or none of them. Not for Redis Cluster, the keys are in different slots. */
export class MultiLock implements AsyncDisposable {
  private timer: NodeJS.Timeout;

  private constructor(
    private readonly redis: Redis,
    readonly keys: string[],
    readonly token: string,
    private readonly ttl: number,
  ) {
    this.timer = setInterval(() => void this.extend(), ttl / 3);
  }

  static async acquire(redis: Redis, names: string[], ttl = 9_000, waitMs = 10_000): Promise<MultiLock> {
    const keys = [...new Set(names)].map((n) => `lock:${n}`);
    const token = randomUUID();
    const giveUp = Date.now() + waitMs;
    try {
      while ((await redis.eval(ACQUIRE, keys.length, ...keys, token, ttl)) !== 1) {
        if (Date.now() > giveUp) throw new Error(`busy: ${names.join(', ')}`);
        await sleep(40 + Math.random() * 60);
      }
    } catch (err) {
      await redis.eval(RELEASE, keys.length, ...keys, token).catch(() => {});
      throw err;
    }
    return new MultiLock(redis, keys, token, ttl);
  }

  private async extend(): Promise<void> {
    try {
      const ok = await this.redis.eval(EXTEND, this.keys.length, ...this.keys, this.token, this.ttl);
      if (ok !== 1) clearInterval(this.timer);
    } catch {
      // next beat tries again; whatever is written checks the token anyway
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.timer);
    await this.redis.eval(RELEASE, this.keys.length, ...this.keys, this.token).catch(() => {});
  }
}

export type Screening = (from: string, to: string, amount: number) => Promise<boolean>;

/**
 * Moves money between two accounts kept in Redis, after a screening that can
 * take seconds. Both accounts stay locked meanwhile. The write itself is one
 * script which looks whether the locks are still ours; it does nothing the
 * second time it is called for a transfer id.
 */
export async function transfer(redis: Redis, id: string, from: string, to: string, amount: number, screen: Screening) {
  if (!Number.isSafeInteger(amount) || amount <= 0) throw new RangeError('bad amount');
  if (from === to) throw new RangeError('same account');

  await using lock = await MultiLock.acquire(redis, [`account:${from}`, `account:${to}`]);

  if (await redis.exists(`transfer:${id}`)) return 'ok' as const;
  if (!(await screen(from, to, amount))) return 'refused' as const;

  const [lockFrom, lockTo] = lock.keys;
  const outcome = await redis.eval(
    COMMIT, 5, lockFrom, lockTo, `balance:${from}`, `balance:${to}`, `transfer:${id}`, lock.token, amount,
  );
  if (outcome === 'lost') throw new Error(`transfer ${id}: locks were lost, try again`);
  return outcome === 'poor' ? ('insufficient' as const) : ('ok' as const);
}
