import { createClient } from 'redis';

// Deployment "payout-runner", 3 replicas. Each replica wakes up every minute and pays out the
// merchants that are due; a merchant is handled by one replica at a time.

const TTL_MS = 60_000;
const MARGIN_MS = 5_000;
const OWNER = `payout-runner-${process.pid}`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

const TAKE = `
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return owner and 2 or 1`;

const redis = createClient({
  socket: { host: process.env.REDIS_HOST ?? 'redis', port: Number(process.env.REDIS_PORT ?? 6379) },
});
redis.on('error', (err) => console.error('[payouts] redis', err.message));

async function take(merchantId) {
  const key = `payout:${merchantId}`;
  const asked = performance.now();
  const how = await redis.eval(TAKE, { keys: [key], arguments: [OWNER, String(TTL_MS)] });
  if (how === 0) return null;
  // 2 = we had it already, i.e. the last run of this process broke off half way
  if (how === 2) console.warn(`[payouts] picking ${merchantId} up again`);
  const endsAt = asked + TTL_MS - MARGIN_MS;
  return {
    msLeft: () => endsAt - performance.now(),
    release: () => redis.eval(RELEASE, { keys: [key], arguments: [OWNER] }),
  };
}

const TRANSFER_MS = 10_000;

async function payMerchant(bank, db, merchantId) {
  const lock = await take(merchantId);
  if (!lock) return 'busy';
  try {
    const due = await db.amountDue(merchantId, { timeoutMs: 3_000 });
    if (due <= 0) return 'nothing due';
    if (lock.msLeft() < TRANSFER_MS + 3_000) return 'late';
    await bank.transfer(merchantId, due, { deadlineMs: TRANSFER_MS });
    await db.markPaid(merchantId, due, { timeoutMs: 3_000 });
    return 'paid';
  } finally {
    await lock.release().catch((err) => console.warn('[payouts] release', merchantId, err.message));
  }
}

let running = false;

export async function start({ bank, db }) {
  await redis.connect();
  console.log('[payouts] started as', OWNER);

  const tick = async () => {
    if (running) return;
    running = true;
    try {
      for (const merchantId of await db.merchantsDue()) {
        const result = await payMerchant(bank, db, merchantId);
        console.log(`[payouts] ${merchantId}: ${result}`);
      }
    } catch (err) {
      console.error('[payouts] run failed', err);
    } finally {
      running = false;
    }
  };
  await tick();
  return setInterval(tick, 60_000);
}
