import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import Redis from 'ioredis';

const UNLOCK = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  else
    return 0
  end
`;

const DEFAULTS = {
  ttl: 20_000,
  attempts: 6,
  backoff: 250,
  clockDrift: 0.01,
};

/**
 * Connects to the lock servers. They are independent of each other (no
 * replication), ideally in different availability zones.
 *
 * @param {string[]} urls
 */
export function connectNodes(urls) {
  return urls.map((url) => {
    const node = new Redis(url, {
      commandTimeout: 300,
      connectTimeout: 1_000,
      maxRetriesPerRequest: 0,
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
    });
    node.on('error', (err) => console.warn('[lock node %s] %s', node.options.host, err.message));
    return node;
  });
}

/**
 * Tries to get `resource` on a majority of the nodes.
 *
 * @param {Redis[]} nodes
 * @param {string} resource
 * @param {Partial<typeof DEFAULTS>} [options]
 * @returns {Promise<{ resource: string, token: string, expiresAt: number } | null>}
 */
export async function acquire(nodes, resource, options = {}) {
  const { ttl, attempts, backoff, clockDrift } = { ...DEFAULTS, ...options };

  for (let attempt = 1; attempt <= attempts; attempt++) {
    const token = randomBytes(20).toString('hex');
    const startedAt = performance.now();

    const results = await Promise.allSettled(
      nodes.map((node) => node.set(resource, token, 'PX', ttl, 'NX')),
    );

    const answers = results.filter((r) => r.status === 'fulfilled');
    const votes = answers.filter((r) => r.value === 'OK').length;
    const quorum = Math.floor(answers.length / 2) + 1;

    const expiresAt = startedAt + ttl - Math.ceil(ttl * clockDrift) - 2;
    if (votes >= quorum && performance.now() < expiresAt) {
      return { resource, token, expiresAt };
    }

    await release(nodes, { resource, token });
    if (attempt < attempts) await delay(backoff / 2 + Math.random() * backoff);
  }
  return null;
}

/** Gives the lock back on every node, including those that did not answer in time. */
export async function release(nodes, { resource, token }) {
  await Promise.allSettled(nodes.map((node) => node.eval(UNLOCK, 1, resource, token)));
}

/**
 * Runs `task(signal)` under the lock. The signal fires before the lock runs
 * out; there is no extension, so pick a ttl that fits the task.
 */
export async function withMultiLock(nodes, resource, task, options = {}) {
  const lock = await acquire(nodes, resource, options);
  if (!lock) {
    throw Object.assign(new Error(`${resource} is locked`), { code: 'ELOCKED' });
  }
  const remaining = lock.expiresAt - performance.now();
  const signal = AbortSignal.timeout(Math.max(1, Math.floor(remaining * 0.9)));
  try {
    return await task(signal);
  } finally {
    await release(nodes, lock);
  }
}

// Example: merge the small segments of a ledger into one
export async function compactLedger(nodes, ledgerId, store) {
  return withMultiLock(
    nodes,
    `ledger:${ledgerId}`,
    async (signal) => {
      const segments = await store.listSegments(ledgerId, { signal });
      if (segments.length < 2) return 0;
      const merged = await store.writeMerged(ledgerId, segments, { signal });
      signal.throwIfAborted();
      await store.setManifest(ledgerId, [merged]);
      return segments.length;
    },
    { ttl: 60_000 },
  );
}
