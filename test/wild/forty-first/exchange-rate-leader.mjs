import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';
import pino from 'pino';

const log = pino({ name: 'fx' });
const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => log.warn({ err: err.message }, 'redis'));
await redis.connect();

// one loop per process, so one id per process
const ME = randomUUID();
const LEASE_KEY = '{fx}:leader';
const RATES_KEY = '{fx}:rates';
const LEASE_MS = 20_000;
const EVERY_MS = 5_000;

const CLAIM = `
local cur = redis.call('GET', KEYS[1])
if cur == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
if not cur then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
return 0`;

const STORE = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
redis.call('PUBLISH', KEYS[2], ARGV[2] .. '=' .. ARGV[3])
return 1`;

const RESIGN = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

let stopping = false;
for (const sig of ['SIGINT', 'SIGTERM']) {
  process.once(sig, () => {
    stopping = true;
  });
}

async function tick() {
  const res = await fetch(`${process.env.FX_API}/latest?base=EUR`, { signal: AbortSignal.timeout(4_000) });
  if (!res.ok) throw new Error(`fx api ${res.status}`);
  const { rates } = await res.json();

  for (const [currency, rate] of Object.entries(rates)) {
    const stored = await redis.eval(STORE, {
      keys: [LEASE_KEY, RATES_KEY],
      arguments: [ME, currency, String(rate)],
    });
    if (stored !== 1) {
      log.info('no longer leader, dropping the rest');
      return;
    }
  }
}

while (!stopping) {
  try {
    const mine = await redis.eval(CLAIM, { keys: [LEASE_KEY], arguments: [ME, String(LEASE_MS)] });
    if (mine === 1) await tick();
  } catch (err) {
    log.warn({ err: err.message }, 'round failed');
  }
  await sleep(EVERY_MS);
}

await redis.eval(RESIGN, { keys: [LEASE_KEY], arguments: [ME] }).catch(() => {});
await redis.quit();
