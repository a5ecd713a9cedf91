// Dockerfile: CMD ["node", "nightly-invoices.mjs"]
// Scheduled at 02:00 in every region; whichever region gets the lock does the work,
// the others exit. Redis is shared by the regions.
import { createClient } from 'redis';

const LOCK = 'cron:nightly-invoices';
const TTL = 60_000;
const { REDIS_URL, BILLING_URL, APP_NAME = 'invoices' } = process.env;

const redis = createClient({ url: REDIS_URL });
redis.on('error', (err) => console.error('redis:', err.message));
await redis.connect();

// readable, so that on-call can see in redis-cli which process is at work
const me = `${APP_NAME}/${process.pid}`;

const ifMine = (then) => `if redis.call('get', KEYS[1]) == ARGV[1] then return ${then} else return 0 end`;
const EXTEND = ifMine("redis.call('pexpire', KEYS[1], ARGV[2])");
const UNLOCK = ifMine("redis.call('del', KEYS[1])");

async function lock() {
  if ((await redis.set(LOCK, me, { NX: true, PX: TTL })) === 'OK') return true;
  // When the container was restarted after a crash, the lock is still there and still ours.
  const kept = await redis.eval(EXTEND, { keys: [LOCK], arguments: [me, String(TTL)] });
  return kept === 1;
}

async function api(path, init = {}) {
  const res = await fetch(new URL(path, BILLING_URL), {
    ...init,
    headers: { 'content-type': 'application/json' },
    signal: AbortSignal.any([lost.signal, AbortSignal.timeout(10_000)]),
  });
  if (!res.ok) throw new Error(`${path}: ${res.status}`);
  return res.json();
}

const lost = new AbortController();
let freshAt = performance.now();

if (!(await lock())) {
  console.log('another region is on it');
  await redis.quit();
  process.exit(0);
}

const heart = setInterval(async () => {
  const asked = performance.now();
  if (asked - freshAt > TTL * 0.7) return lost.abort(new Error('could not renew the lock'));
  try {
    const kept = await redis.eval(EXTEND, { keys: [LOCK], arguments: [me, String(TTL)] });
    if (kept === 1) freshAt = asked;
    else lost.abort(new Error('the lock is gone'));
  } catch (err) {
    console.warn('renewal:', err.message);
  }
}, TTL / 6);

try {
  const { customers } = await api('/customers?due=today');
  for (const { id } of customers) {
    lost.signal.throwIfAborted();
    const { invoiced } = await api(`/customers/${id}/status`);
    if (invoiced) continue; // done by an earlier run

    // Invoice numbers must have no gaps, so we count on from the last invoice that really exists.
    const { last } = await api('/invoices/last-number');
    const number = last + 1;
    lost.signal.throwIfAborted();
    await api('/invoices', { method: 'POST', body: JSON.stringify({ customer: id, number }) });
    console.log(`invoice ${number} for ${id}`);
  }
} catch (err) {
  console.error(err);
  process.exitCode = 1;
} finally {
  clearInterval(heart);
  await redis.eval(UNLOCK, { keys: [LOCK], arguments: [me] }).catch(() => {});
  await redis.quit();
}
