import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => console.error('redis', err));
await redis.connect();

const LEASE = '{rollup}:leader';
const EPOCH = '{rollup}:epoch';
const TOTALS = '{rollup}:totals';
const EVENTS = '{rollup}:scores';
const LEASE_MS = 15_000;
const MARGIN_MS = 2_000;

const CAMPAIGN = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0`;
const RENEW = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;
const RESIGN = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;
const PUBLISH = `
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'top', ARGV[2], 'epoch', ARGV[1])
return 1`;

async function rollup(epoch: number, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const top = await redis.zRangeWithScores(EVENTS, 0, 99, { REV: true });
    const stored = await redis.eval(PUBLISH, {
      keys: [TOTALS, EPOCH],
      arguments: [String(epoch), JSON.stringify(top)],
    });
    if (stored !== 1) throw new Error(`epoch ${epoch} has been superseded`);
    await sleep(5_000, undefined, { signal }).catch(() => {});
  }
}

async function term(): Promise<void> {
  const id = randomUUID();
  const campaignedAt = Date.now();
  const epoch = Number(await redis.eval(CAMPAIGN, { keys: [LEASE, EPOCH], arguments: [id, String(LEASE_MS)] }));
  if (epoch === 0) return;

  console.log('leading, epoch %d', epoch);
  const ctl = new AbortController();
  let goodUntil = campaignedAt + LEASE_MS - MARGIN_MS;
  const watchdog = setInterval(() => {
    if (Date.now() >= goodUntil) ctl.abort();
  }, 200);

  const heartbeat = (async () => {
    while (!ctl.signal.aborted) {
      await sleep(LEASE_MS / 3, undefined, { signal: ctl.signal }).catch(() => {});
      if (ctl.signal.aborted) return;
      const askedAt = Date.now();
      try {
        const kept = await redis.eval(RENEW, { keys: [LEASE], arguments: [id, String(LEASE_MS)] });
        if (kept === 1) goodUntil = askedAt + LEASE_MS - MARGIN_MS;
        else ctl.abort();
      } catch (err) {
        console.warn('renewal failed', err);
      }
    }
  })();

  try {
    await rollup(epoch, ctl.signal);
  } finally {
    clearInterval(watchdog);
    ctl.abort();
    await heartbeat;
    await redis.eval(RESIGN, { keys: [LEASE], arguments: [id] });
  }
}

for (;;) {
  await term().catch((err) => console.error('term ended', err));
  await sleep(2_000 + Math.random() * 1_000);
}
