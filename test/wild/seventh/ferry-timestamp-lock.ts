import Redis from 'ioredis';
import { randomUUID } from 'crypto';

const redis = new Redis(process.env.REDIS_URL!);

// hash { owner, until }; `until` is when the hold runs out
const TAKE = `
local till = redis.call('HGET', KEYS[1], 'until')
if till and tonumber(till) > tonumber(ARGV[2]) then
  return 0
end
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'until', ARGV[3])
return 1`;

const FREE = `
if redis.call('HGET', KEYS[1], 'owner') == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export interface Hold {
  readonly until: number;
  free(): Promise<unknown>;
}

export async function holdDeck(sailing: string, ms = 6_000): Promise<Hold | null> {
  const key = `ferry:${sailing}:deck`;
  const owner = randomUUID();
  const now = Date.now();
  const until = now + ms;
  const ok = await redis.eval(TAKE, 1, key, owner, now, until);
  return ok === 1 ? { until, free: () => redis.eval(FREE, 1, key, owner) } : null;
}

type Deck = { load(s: string): Promise<{ metres: number }>; store(s: string, metres: number, timeoutMs: number): Promise<void> };

export async function reserveMetres(deck: Deck, sailing: string, metres: number) {
  const hold = await holdDeck(sailing);
  if (!hold) return 'try again';
  try {
    const { metres: free } = await deck.load(sailing);
    if (free < metres) return 'full';
    if (hold.until - Date.now() < 2_000) return 'try again';
    await deck.store(sailing, free - metres, 1_500);
    return 'reserved';
  } finally {
    await hold.free();
  }
}
