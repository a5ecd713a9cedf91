import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
redis.on('error', (err) => console.error('loyalty: redis', err.message));

const MAX_TRIES = 8;

interface Account {
  points: number;
  tier: 'bronze' | 'silver' | 'gold';
  earned: number;
}

export interface Purchase {
  customerId: string;
  receipt: string;
  cents: number;
}

function parse(raw: string | null): Account {
  return raw === null ? { points: 0, tier: 'bronze', earned: 0 } : (JSON.parse(raw) as Account);
}

function tierFor(earned: number): Account['tier'] {
  if (earned >= 50_000) return 'gold';
  if (earned >= 10_000) return 'silver';
  return 'bronze';
}

const factor = { bronze: 1, silver: 1.25, gold: 1.5 } as const;

async function change(
  customerId: string,
  receipt: string,
  update: (before: Account) => Account,
): Promise<Account> {
  const accountKey = `loyalty:{${customerId}}:account`;
  const receiptKey = `loyalty:{${customerId}}:receipt:${receipt}`;

  for (let attempt = 0; attempt < MAX_TRIES; attempt++) {
    await redis.watch(accountKey, receiptKey);
    const [raw, seen] = await redis.mget(accountKey, receiptKey);
    if (seen) {
      await redis.unwatch();
      return parse(raw ?? null);
    }

    let after: Account;
    try {
      after = update(parse(raw ?? null));
    } catch (err) {
      await redis.unwatch();
      throw err;
    }

    const replies = await redis
      .multi()
      .set(accountKey, JSON.stringify(after))
      .set(receiptKey, new Date().toISOString())
      .exec();
    if (replies !== null) {
      for (const [err] of replies) if (err) throw err;
      return after;
    }
    await sleep(10 + Math.random() * 40 * (attempt + 1));
  }
  throw new Error(`account of ${customerId} changes too often`);
}

/** Called for each receipt that the tills send. */
export function earn(p: Purchase): Promise<Account> {
  return change(p.customerId, p.receipt, (a) => {
    const gained = Math.floor((p.cents / 100) * factor[a.tier]);
    const earned = a.earned + gained;
    return { points: a.points + gained, earned, tier: tierFor(earned) };
  });
}

export function spend(customerId: string, receipt: string, points: number): Promise<Account> {
  return change(customerId, receipt, (a) => {
    if (a.points < points) throw new RangeError('not enough points');
    return { ...a, points: a.points - points };
  });
}
