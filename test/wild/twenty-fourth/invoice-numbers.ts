import { createHmac, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379', {
  maxRetriesPerRequest: 2,
  commandTimeout: 2_000,
});
redis.on('error', (err) => console.error('[invoices] redis', err.message));

const LOCK_TTL_MS = 15_000;
const WAIT_MS = 5_000;

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

// Head of the chain and the invoice itself move together, and only for the lock holder.
const COMMIT = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('hset', KEYS[2], 'no', ARGV[2], 'hash', ARGV[3])
redis.call('hset', KEYS[3], ARGV[4], ARGV[5])
return 1`;

export interface Draft {
  id: string;
  tenant: string;
  totalCents: number;
  customer: string;
}
export interface SignedInvoice extends Draft {
  no: number;
  prevHash: string;
  hash: string;
}

interface Lock {
  key: string;
  token: string;
}

async function unlock(lock: Lock): Promise<void> {
  try {
    await redis.eval(UNLOCK, 1, lock.key, lock.token);
  } catch (err) {
    console.warn(`[invoices] could not release ${lock.key}, it will expire`, err);
  }
}

async function withLock<T>(key: string, fn: (lock: Lock) => Promise<T>): Promise<T> {
  const giveUpAt = Date.now() + WAIT_MS;
  for (;;) {
    const lock = { key, token: randomUUID() };
    let reply: string | null;
    try {
      reply = await redis.set(key, lock.token, 'PX', LOCK_TTL_MS, 'NX');
    } catch (err) {
      await unlock(lock); // the SET may have arrived although its answer did not
      throw err;
    }
    if (reply === 'OK') {
      try {
        return await fn(lock);
      } finally {
        await unlock(lock);
      }
    }
    if (Date.now() > giveUpAt) throw new Error(`invoice chain busy: ${key}`);
    await sleep(40 + Math.random() * 80);
  }
}

/** Issues the next number of the tenant's chain. Calling it again for the same draft returns the first result. */
export async function issueInvoice(draft: Draft, signingKey: string): Promise<SignedInvoice> {
  const tag = `{${draft.tenant}}`;
  const headKey = `invoice:head:${tag}`;
  const issuedKey = `invoice:issued:${tag}`;

  return withLock(`invoice:lock:${tag}`, async (lock) => {
    const already = await redis.hget(issuedKey, draft.id);
    if (already) return JSON.parse(already) as SignedInvoice;

    const head = await redis.hgetall(headKey);
    const no = Number(head.no ?? 0) + 1;
    const prevHash = head.hash ?? '';
    const hash = createHmac('sha256', signingKey)
      .update([no, prevHash, draft.id, draft.totalCents, draft.customer].join('|'))
      .digest('hex');
    const invoice: SignedInvoice = { ...draft, no, prevHash, hash };

    const committed = await redis.eval(
      COMMIT, 3, lock.key, headKey, issuedKey,
      lock.token, String(no), hash, draft.id, JSON.stringify(invoice),
    );
    if (committed !== 1) throw new Error(`lost the chain lock while issuing ${draft.id}`);
    return invoice;
  });
}
