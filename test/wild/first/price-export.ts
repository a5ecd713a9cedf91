import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

const LOCK_KEY = 'price-export:lock';
const LOCK_TTL_SECONDS = 5;
const BATCHES = 12;

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const client = createClient({ url: process.env.REDIS_URL, commandOptions: { timeout: 1000 } });
client.on('error', (err) => console.error('[price-export]', err.message));

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** Started every ten minutes on each node by the scheduler. The partner accepts one batch per second. */
export async function exportPrices(): Promise<'exported' | 'skipped'> {
  if (!client.isOpen) await client.connect();
  const token = randomUUID();
  const locked = await client.set(LOCK_KEY, token, { NX: true, EX: LOCK_TTL_SECONDS });
  if (locked !== 'OK') return 'skipped';
  try {
    for (let batch = 0; batch < BATCHES; batch++) {
      await client.rPush('price-export:outbox', `batch-${batch}`);
      await pause(1000);
    }
    await client.set('price-export:last', String(Date.now()));
    return 'exported';
  } finally {
    await client.eval(UNLOCK, { keys: [LOCK_KEY], arguments: [token] });
  }
}
