import { Redis } from '@upstash/redis';

let cached: Redis | undefined;

function getRedis(): Redis {
  cached ??= new Redis({
    url: process.env.UPSTASH_REDIS_REST_URL ?? '',
    token: process.env.UPSTASH_REDIS_REST_TOKEN ?? '',
  });
  return cached;
}

const UNLOCK = `
local current = redis.call("GET", KEYS[1])
if current == ARGV[1] then
  redis.call("DEL", KEYS[1])
  return 1
end
return 0
`;

export interface QuoteLine {
  sku: string;
  qty: number;
  cents: number;
}

export function total(lines: QuoteLine[]): number {
  return lines.reduce((sum, line) => sum + line.qty * line.cents, 0);
}

export async function withQuoteLock<T>(
  quoteId: string,
  fn: () => Promise<T>,
  options: { ttlSec?: number; client?: Redis } = {},
): Promise<{ ok: true; value: T } | { ok: false; reason: 'locked' }> {
  const redis = options.client ?? getRedis();
  const key = `quotes:${quoteId}:lock`;
  const owner = `q-${crypto.randomUUID()}`;

  const taken = await redis.set(key, owner, { nx: true, ex: options.ttlSec ?? 30 });
  if (taken !== 'OK') return { ok: false, reason: 'locked' };

  try {
    const value = await fn();
    return { ok: true, value };
  } finally {
    try {
      await redis.eval(UNLOCK, [key], [owner]);
    } catch (err) {
      console.error('quote unlock failed', quoteId, err);
    }
  }
}

export async function repriceQuote(quoteId: string, lines: QuoteLine[], save: (cents: number) => Promise<void>) {
  return withQuoteLock(quoteId, async () => {
    const cents = total(lines);
    await save(cents);
    return cents;
  });
}
