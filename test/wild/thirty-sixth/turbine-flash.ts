import { Redis } from 'ioredis';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const urls = (
  process.env.LOCK_NODES ??
  'redis://lock-north:6379,redis://lock-south:6379,redis://lock-east:6379,redis://lock-west:6379'
).split(',');

const nodes = urls.map(
  (url) => new Redis(url, { maxRetriesPerRequest: 0, commandTimeout: 500, enableOfflineQueue: false }),
);
for (const node of nodes) node.on('error', () => undefined);

const QUORUM = Math.ceil(nodes.length / 2);
const TTL = 90_000;
const DRIFT = TTL * 0.01 + 2;

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

interface Grant {
  key: string;
  token: string;
  validMs: number;
}

async function unlock(key: string, token: string): Promise<void> {
  await Promise.allSettled(nodes.map((node) => node.eval(UNLOCK, 1, key, token)));
}

async function lock(key: string, attempts = 5): Promise<Grant | null> {
  for (let i = 0; i < attempts; i++) {
    const token = randomUUID();
    const started = performance.now();
    const replies = await Promise.allSettled(nodes.map((node) => node.set(key, token, 'PX', TTL, 'NX')));
    const votes = replies.filter((r) => r.status === 'fulfilled' && r.value === 'OK').length;
    const validMs = TTL - (performance.now() - started) - DRIFT;

    if (votes >= QUORUM && validMs > 0) return { key, token, validMs };

    await unlock(key, token);
    await sleep(100 + Math.random() * 400);
  }
  return null;
}

async function pitchControl(turbine: string, path: string, body: BodyInit | null, signal: AbortSignal): Promise<void> {
  const res = await fetch(`http://${turbine}.park.local/pitch/${path}`, { method: 'POST', body, signal });
  if (!res.ok) throw new Error(`${turbine} ${path}: ${res.status}`);
}

/**
 * Two writers on one pitch controller brick it, so the whole sequence runs
 * under the lock and stops well before the grant ends.
 */
export async function flash(turbine: string, image: Blob): Promise<boolean> {
  const grant = await lock(`pitch:${turbine}`);
  if (!grant) return false;

  const signal = AbortSignal.timeout(Math.floor(grant.validMs - 15_000));
  try {
    await pitchControl(turbine, 'feather', null, signal);
    await pitchControl(turbine, 'firmware', image, signal);
    await pitchControl(turbine, 'restart', null, signal);
    return true;
  } finally {
    await unlock(grant.key, grant.token);
  }
}
