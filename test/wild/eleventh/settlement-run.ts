import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';

let redis: Redis | null = null;

function getRedis(): Redis {
  if (!redis) {
    redis = new Redis(process.env.REDIS_URL || 'redis://localhost:6379', {
      maxRetriesPerRequest: 1,
      connectTimeout: 2_000,
    });
    redis.on('error', (err) => console.error('[redis]', err.message));
  }
  return redis;
}

const RELEASE_SCRIPT = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  else
    return 0
  end
`;

const TTL_MS = 120_000;
const WORK_MS = 90_000;

interface SettlementLock {
  deadline: number;
  release(): Promise<void>;
}

/** Makes sure that only one instance settles a merchant at a time. Null: somebody else is at it. */
async function acquireSettlementLock(merchantId: string): Promise<SettlementLock | null> {
  const key = `settlement:lock:${merchantId}`;
  const token = randomUUID();
  const deadline = performance.now() + WORK_MS;
  try {
    const result = await getRedis().set(key, token, 'PX', TTL_MS, 'NX');
    if (result !== 'OK') return null;
    return {
      deadline,
      release: async () => {
        try {
          await getRedis().eval(RELEASE_SCRIPT, 1, key, token);
        } catch (err) {
          console.warn(`release of ${key} failed, it expires by itself`, err);
        }
      },
    };
  } catch (err) {
    console.warn(`[settlement] redis unavailable, merchant ${merchantId}`, err);
    return { deadline, release: async () => {} };
  }
}

export interface Payouts {
  open(merchantId: string): Promise<{ id: string; cents: number }[]>;
  // both give up after ten seconds
  transfer(merchantId: string, cents: number): Promise<string>;
  markPaid(ids: string[], reference: string): Promise<void>;
}

export async function settleMerchant(payouts: Payouts, merchantId: string) {
  const lock = await acquireSettlementLock(merchantId);
  if (!lock) return { merchantId, status: 'in-progress' as const };

  try {
    const open = await payouts.open(merchantId);
    if (open.length === 0) return { merchantId, status: 'nothing-to-do' as const };

    if (performance.now() >= lock.deadline) throw new Error(`settlement of ${merchantId} ran out of time`);
    const cents = open.reduce((sum, p) => sum + p.cents, 0);
    const reference = await payouts.transfer(merchantId, cents);
    await payouts.markPaid(open.map((p) => p.id), reference);
    return { merchantId, status: 'settled' as const, cents, reference };
  } finally {
    await lock.release();
  }
}
