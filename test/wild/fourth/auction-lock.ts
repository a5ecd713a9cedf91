import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', { lazyConnect: true });
redis.on('error', (err) => console.error('auction redis', err.message));

const HOLD_MS = 4_000;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

async function tryHold(lot: string): Promise<string | null> {
  const key = `auction:${lot}:hold`;
  const token = randomUUID();

  await redis.watch(key);
  const current = await redis.get(key);
  if (current !== null) {
    await redis.unwatch();
    return null;
  }
  const results = await redis.multi().set(key, token, 'PX', HOLD_MS).exec();
  if (results === null) return null;
  const [err, reply] = results[0] ?? [new Error('empty reply'), null];
  if (err) throw err;
  return reply === 'OK' ? token : null;
}

async function hold(lot: string, attempts = 10): Promise<string> {
  for (let i = 0; i < attempts; i++) {
    const token = await tryHold(lot);
    if (token) return token;
    await new Promise((resolve) => setTimeout(resolve, 30 + Math.random() * 60));
  }
  throw new Error(`lot ${lot} is busy`);
}

async function letGo(lot: string, token: string): Promise<void> {
  await redis.eval(RELEASE, 1, `auction:${lot}:hold`, token);
}

export interface Bid {
  lot: string;
  bidder: string;
  cents: number;
}

export interface BidBook {
  highest(lot: string): Promise<Bid | null>;
  append(bid: Bid): Promise<void>;
}

export async function placeBid(book: BidBook, bid: Bid): Promise<{ accepted: boolean; minimum: number }> {
  const token = await hold(bid.lot);
  try {
    const top = await book.highest(bid.lot);
    const minimum = top ? nextStep(top.cents) : 100;
    if (bid.cents < minimum) return { accepted: false, minimum };
    await book.append(bid);
    return { accepted: true, minimum: nextStep(bid.cents) };
  } finally {
    await letGo(bid.lot, token);
  }
}

export function nextStep(cents: number): number {
  return cents + (cents < 10_000 ? 100 : Math.ceil(cents / 2_000) * 100);
}
