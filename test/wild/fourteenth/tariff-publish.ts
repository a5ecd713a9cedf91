import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

const nodes = (process.env.REDIS_NODES ?? '')
  .split(',')
  .filter(Boolean)
  .map((url) => {
    const node = new Redis(url, {
      commandTimeout: 100,
      maxRetriesPerRequest: 0,
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
    });
    node.on('error', (err) => console.warn('redis node %s: %s', node.options.host, err.message));
    return node;
  });

const QUORUM = Math.floor(nodes.length / 2) + 1;
const TTL_MS = 20_000;
const DRIFT_MS = Math.ceil(TTL_MS * 0.01) + 2;
const NEEDED_MS = 12_000;
const ATTEMPTS = 6;

const DELETE_OWN = `
  if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
  end
  return 0`;

async function unlockAll(key: string, value: string): Promise<void> {
  await Promise.allSettled(nodes.map((n) => n.eval(DELETE_OWN, 1, key, value)));
}

/** Returns the moment (performance.now) until which the lock is good, or undefined. */
async function lockAll(key: string, value: string): Promise<number | undefined> {
  const start = performance.now();
  const replies = await Promise.allSettled(nodes.map((n) => n.set(key, value, 'PX', TTL_MS, 'NX')));
  const granted = replies.filter((r) => r.status === 'fulfilled' && r.value === 'OK').length;
  const until = start + TTL_MS - DRIFT_MS;
  if (granted >= QUORUM && until - performance.now() >= NEEDED_MS) return until;
  await unlockAll(key, value);
  return undefined;
}

export type Tariff = { name: string; bands: { upToKwh: number; cents: number }[] };

/** Adds or replaces one tariff in a region's published document. */
export async function publishTariff(region: string, tariff: Tariff): Promise<void> {
  const key = `tariffs:${region}`;
  const url = new URL(`/regions/${encodeURIComponent(region)}.json`, process.env.TARIFF_STORE_URL);

  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const value = randomBytes(20).toString('hex');
    const until = await lockAll(key, value);
    if (until === undefined) {
      await sleep(50 * 2 ** attempt + Math.random() * 150);
      continue;
    }

    try {
      const signal = AbortSignal.timeout(Math.max(1, Math.floor(until - performance.now() - 1_000)));
      const current = await fetch(url, { signal });
      if (!current.ok) throw new Error(`reading tariffs of ${region}: ${current.status}`);
      const etag = current.headers.get('etag');
      if (!etag) throw new Error('the tariff store sent no etag');
      const doc = (await current.json()) as { tariffs: Tariff[] };

      const tariffs = [...doc.tariffs.filter((t) => t.name !== tariff.name), tariff];
      signal.throwIfAborted();
      const saved = await fetch(url, {
        method: 'PUT',
        headers: { 'content-type': 'application/json', 'if-match': etag },
        body: JSON.stringify({ ...doc, tariffs }),
        signal,
      });
      if (!saved.ok) throw new Error(`saving tariffs of ${region}: ${saved.status}`);
      return;
    } finally {
      await unlockAll(key, value);
    }
  }
  throw new Error(`tariffs of ${region} are being published by someone else`);
}
