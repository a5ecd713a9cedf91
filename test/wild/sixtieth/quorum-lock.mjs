import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

/** Independent masters, no replicas; appendfsync always on each. */
export function connectNodes(urls) {
  return urls.map((url) => {
    const client = createClient({ url, disableOfflineQueue: true });
    client.on('error', (err) => console.error(`redis ${url}`, err.message));
    client.connect().catch((err) => console.error(`redis ${url}`, err.message));
    return client;
  });
}

function within(promise, ms) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('no answer in time')), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

export function createQuorumLock(clients, { ttl = 10_000, nodeTimeout = 150, attempts = 5 } = {}) {
  const quorum = Math.floor(clients.length / 2) + 1;

  async function onAll(command) {
    const results = await Promise.allSettled(
      clients.map((client) => within(Promise.resolve().then(() => command(client)), nodeTimeout)),
    );
    return results.map((r) => (r.status === 'fulfilled' ? r.value : undefined));
  }

  // Also asks the nodes that did not answer: they may have stored the key all the same.
  const releaseAll = (key, token) =>
    onAll((client) => client.eval(RELEASE, { keys: [key], arguments: [token] }));

  async function tryAcquire(key) {
    const token = randomUUID();
    const start = performance.now();
    const replies = await onAll((client) => client.set(key, token, { NX: true, PX: ttl }));
    const drift = ttl * 0.01 + 2;
    const validUntil = start + ttl - drift;
    if (replies.filter((r) => r === 'OK').length >= quorum && validUntil > performance.now()) {
      return { token, validUntil };
    }
    await releaseAll(key, token);
    return null;
  }

  /** fn gets a signal which aborts when the lock may have run out; it is not renewed. */
  return async function withQuorumLock(name, fn) {
    const key = `qlock:${name}`;
    for (let attempt = 0; attempt < attempts; attempt++) {
      if (attempt > 0) await sleep(100 + Math.random() * 300);
      const lock = await tryAcquire(key);
      if (!lock) continue;
      try {
        const left = Math.max(0, Math.floor(lock.validUntil - performance.now()));
        return await fn(AbortSignal.timeout(left));
      } finally {
        await releaseAll(key, lock.token);
      }
    }
    throw new Error(`${name} is locked`);
  };
}

export function createProfileStore(withQuorumLock, db) {
  return {
    merge: (id, patch) =>
      withQuorumLock(`profile:${id}`, async (signal) => {
        const { rows } = await db.query('select doc, version from profiles where id = $1', [id]);
        if (rows.length === 0) throw new Error(`no profile ${id}`);
        signal.throwIfAborted();
        const { rowCount } = await db.query(
          'update profiles set doc = $2, version = version + 1 where id = $1 and version = $3',
          [id, JSON.stringify({ ...rows[0].doc, ...patch }), rows[0].version],
        );
        if (rowCount === 0) throw new Error(`profile ${id} was changed meanwhile`);
      }),
  };
}
