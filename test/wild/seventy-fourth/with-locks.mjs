// withLocks(['a', 'b'], async ({ signal, assertHeld }) => { ... })
//
// Started as a 20 line gist, then we needed to lock an account *pair* for transfers,
// then we needed long imports, so here we are.
import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

const client = createClient({
  url: process.env.REDIS_URL || 'redis://127.0.0.1:6379',
  disableOfflineQueue: true, // fail right away while redis is down
});
client.on('error', (err) => console.error('[locks] redis:', err.message));
let connecting;
const ready = () => (connecting ??= client.connect());

// all or nothing, so there is no order in which two callers can block each other
const TAKE = `
for _, k in ipairs(KEYS) do
  if redis.call('EXISTS', k) == 1 then return 0 end
end
for _, k in ipairs(KEYS) do
  redis.call('SET', k, ARGV[1], 'PX', ARGV[2])
end
return 1`;

const RENEW = `
for _, k in ipairs(KEYS) do
  if redis.call('GET', k) ~= ARGV[1] then return 0 end
end
for _, k in ipairs(KEYS) do
  redis.call('PEXPIRE', k, ARGV[2])
end
return 1`;

const DROP = `
local n = 0
for _, k in ipairs(KEYS) do
  if redis.call('GET', k) == ARGV[1] then n = n + redis.call('DEL', k) end
end
return n`;

export class LockTimeout extends Error {}
export class LockLost extends Error {}

/**
 * Runs fn while holding every name in `names`. The keys are renewed for as long as fn runs.
 * If they cannot be renewed, `signal` is aborted a little before they expire: pass it on to
 * whatever you do, and call assertHeld() right before anything you can't take back.
 */
export async function withLocks(names, fn, { ttl = 15_000, wait = 5_000, poll = 120 } = {}) {
  if (ttl < 1000) throw new RangeError('ttl is in milliseconds and must be at least 1000');
  const keys = [...new Set([].concat(names))].map((n) => `lock:${n}`);
  const label = keys.join(', ');
  const token = randomUUID();
  const margin = Math.ceil(ttl * 0.1);
  const call = (script, ...args) => client.eval(script, { keys, arguments: [token, ...args] });

  await ready();
  const giveUp = performance.now() + wait;
  let sentAt;
  for (;;) {
    sentAt = performance.now();
    if ((await call(TAKE, String(ttl))) === 1) break;
    if (performance.now() > giveUp) throw new LockTimeout(`busy: ${label}`);
    await sleep(poll * (0.5 + Math.random()));
  }

  const lost = new AbortController();
  const { signal } = lost;
  let done = false;
  let deadline;
  let deadlineTimer;
  let renewTimer;

  const lose = (why) => {
    clearTimeout(renewTimer);
    clearTimeout(deadlineTimer);
    if (!done && !signal.aborted) lost.abort(new LockLost(`${label}: ${why}`));
  };
  const arm = (from) => {
    deadline = from + ttl - margin;
    clearTimeout(deadlineTimer);
    deadlineTimer = setTimeout(lose, Math.max(0, deadline - performance.now()), 'not renewed in time');
  };
  const renew = async () => {
    const from = performance.now();
    try {
      const kept = await call(RENEW, String(ttl));
      if (done || signal.aborted) return;
      if (kept !== 1) return lose('no longer ours');
      arm(from);
    } catch (err) {
      console.warn(`[locks] renew ${label}:`, err.message);
    }
    if (!done && !signal.aborted) renewTimer = setTimeout(renew, ttl / 4);
  };
  const assertHeld = () => {
    if (performance.now() >= deadline) lose('not renewed in time');
    signal.throwIfAborted();
  };

  arm(sentAt);
  renewTimer = setTimeout(renew, ttl / 4);
  try {
    assertHeld(); // the answer itself may have been slow
    const result = await fn({ signal, assertHeld });
    assertHeld();
    return result;
  } finally {
    done = true;
    clearTimeout(renewTimer);
    clearTimeout(deadlineTimer);
    await call(DROP).catch((err) => console.warn(`[locks] release ${label}:`, err.message));
  }
}
