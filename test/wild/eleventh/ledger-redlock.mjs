import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { createClient } from 'redis';

const EXTEND = `if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;
const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

/** REDIS_NODES=redis://a:6379,redis://b:6379,redis://c:6379 */
export async function connectNodes(list = process.env.REDIS_NODES ?? '') {
  const urls = list.split(',').map((u) => u.trim()).filter(Boolean);
  const clients = urls.map((url) => createClient({ url, disableOfflineQueue: true }));
  for (const c of clients) c.on('error', (e) => console.error('redis node:', e.message));
  // a node that is down keeps reconnecting in the background and just does not vote
  const connected = clients.map((c) => c.connect());
  await Promise.race([Promise.allSettled(connected), delay(2_000)]);
  return clients;
}

/**
 * withLock(name, async ({ signal, check }) => ...) over several masters. The lock is extended
 * while the function runs. The function must watch `signal` and call check() before every booking,
 * with the time (ms) that the booking takes at most.
 */
export function redlock(clients, { ttl = 12_000, answerWithin = 300, tries = 10 } = {}) {
  const majority = Math.floor(clients.length / 2) + 1;
  const drift = Math.ceil(ttl / 100) + 2;

  // number of nodes that said yes in time
  async function poll(ask, isYes) {
    const answers = await Promise.all(
      clients.map((c) =>
        Promise.race([ask(c), delay(answerWithin, undefined, { ref: false })]).then(isYes, () => false),
      ),
    );
    return answers.filter(Boolean).length;
  }

  const releaseAll = (key, token) =>
    poll((c) => c.eval(RELEASE, { keys: [key], arguments: [token] }), (n) => n === 1);

  async function acquire(key) {
    for (let i = 0; i < tries; i++) {
      if (i > 0) await delay(100 + Math.random() * 200);
      const token = randomUUID();
      const t0 = performance.now();
      const yes = await poll((c) => c.set(key, token, { NX: true, PX: ttl }), (r) => r === 'OK');
      const until = t0 + ttl - drift;
      if (yes >= majority && performance.now() < until) return { token, until };
      await releaseAll(key, token);
    }
    throw new Error(`${key}: no majority of ${clients.length} nodes`);
  }

  return async function withLock(name, fn) {
    const key = `redlock:${name}`;
    const lock = await acquire(key);
    const ctl = new AbortController();
    let expiry;
    const arm = () => {
      clearTimeout(expiry);
      expiry = setTimeout(() => ctl.abort(new Error(`${key} expired`)), lock.until - performance.now());
    };
    const check = (needMs = ttl / 8) => {
      if (performance.now() + needMs >= lock.until) ctl.abort(new Error(`${key} expired`));
      ctl.signal.throwIfAborted();
    };
    arm();

    const done = new AbortController();
    const keeper = (async () => {
      while (!done.signal.aborted && !ctl.signal.aborted) {
        await delay(ttl / 3, undefined, { signal: done.signal }).catch(() => {});
        if (done.signal.aborted || ctl.signal.aborted) return;
        const t0 = performance.now();
        const yes = await poll(
          (c) => c.eval(EXTEND, { keys: [key], arguments: [lock.token, String(ttl)] }),
          (n) => n === 1,
        );
        // without a majority the old end stands, and the next round tries again
        if (yes >= majority && performance.now() < lock.until) {
          lock.until = t0 + ttl - drift;
          arm();
        }
      }
    })();

    try {
      check();
      return await fn({ signal: ctl.signal, check });
    } finally {
      done.abort();
      await keeper;
      clearTimeout(expiry);
      await releaseAll(key, lock.token);
    }
  };
}
