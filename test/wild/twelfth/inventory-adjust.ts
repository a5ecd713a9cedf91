import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from '@upstash/redis';

// Stock corrections from the warehouse scanners ("found 3", "2 broken").

const LOCK_MS = 6_000;
const TRIES = 20;

const COMMIT = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('set', KEYS[2], ARGV[2])
redis.call('rpush', KEYS[3], ARGV[3])
return 1`;

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export interface Adjustment {
  sku: string;
  delta: number;
  reason: string;
  scanner: string;
}

export class AdjustmentError extends Error {
  constructor(
    readonly code: 'unknown-sku' | 'below-zero' | 'busy',
    message: string,
  ) {
    super(message);
  }
}

async function lockSku(redis: Redis, key: string): Promise<string> {
  const token = randomUUID();
  for (let i = 0; i < TRIES; i++) {
    const reply = await redis.set(key, token, { nx: true, px: LOCK_MS });
    if (reply === 'OK') return token;
    await sleep(50 + Math.random() * 100);
  }
  throw new AdjustmentError('busy', `${key} is busy`);
}

export async function adjustStock(redis: Redis, adjustment: Adjustment): Promise<number> {
  const { sku, delta } = adjustment;
  const stockKey = `stock:{${sku}}`;
  const lockKey = `stock:{${sku}}:lock`;
  const journalKey = `stock:{${sku}}:journal`;

  const onHand = await redis.get<number>(stockKey);
  if (onHand === null) throw new AdjustmentError('unknown-sku', `no such sku: ${sku}`);

  const token = await lockSku(redis, lockKey);
  try {
    const next = onHand + delta;
    if (next < 0) throw new AdjustmentError('below-zero', `${sku}: ${onHand} on hand, correction of ${delta}`);

    const entry = JSON.stringify({ ...adjustment, at: Date.now(), next });
    const written = await redis.eval(COMMIT, [lockKey, stockKey, journalKey], [token, String(next), entry]);
    if (written !== 1) throw new AdjustmentError('busy', `${sku}: took too long, scan again`);
    return next;
  } finally {
    await redis.eval(UNLOCK, [lockKey], [token]).catch(() => undefined);
  }
}
