import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';

/**
 * Only one dispatcher may send set-points to a grid battery at a time.
 * The lock lives on four independent Redis masters, two in each data centre.
 */
const HOSTS = ['redis-ams-1', 'redis-ams-2', 'redis-fra-1', 'redis-fra-2'];
const nodes = HOSTS.map((host) => new Redis({ host, port: 6379, commandTimeout: 200, maxRetriesPerRequest: 0 }));

const QUORUM = Math.ceil(nodes.length / 2);
const TTL_MS = 30_000;
const DRIFT_MS = TTL_MS * 0.01 + 2;
const MIN_VALIDITY_MS = 25_000;

const RELEASE_SCRIPT = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  else
    return 0
  end
`;

export interface QuorumLock {
  key: string;
  token: string;
  validUntil: number;
}

async function releaseEverywhere(key: string, token: string): Promise<void> {
  await Promise.allSettled(nodes.map((node) => node.eval(RELEASE_SCRIPT, 1, key, token)));
}

export async function acquire(key: string, attempts = 10): Promise<QuorumLock | null> {
  for (let attempt = 0; attempt < attempts; attempt++) {
    const token = randomUUID();
    const start = Date.now();

    const replies = await Promise.allSettled(nodes.map((node) => node.set(key, token, 'PX', TTL_MS, 'NX')));
    const votes = replies.filter((reply) => reply.status === 'fulfilled' && reply.value === 'OK').length;
    const validUntil = start + TTL_MS - DRIFT_MS;

    if (votes >= QUORUM && validUntil - Date.now() >= MIN_VALIDITY_MS) {
      return { key, token, validUntil };
    }

    // Not enough votes: give back the ones we did get before trying again.
    await releaseEverywhere(key, token);
    await sleep(100 + Math.random() * 300);
  }
  return null;
}

export async function release(lock: QuorumLock): Promise<void> {
  await releaseEverywhere(lock.key, lock.token);
}

export interface SetPoint {
  kilowatts: number;
  minutes: number;
}

/** Reads the state of charge and sends the set-point; both calls are cut off after 8 seconds. */
export async function dispatch(batteryId: string, wanted: SetPoint): Promise<boolean> {
  const lock = await acquire(`battery:${batteryId}:dispatch`);
  if (!lock) return false;

  try {
    const base = `${process.env.SCADA_URL}/batteries/${encodeURIComponent(batteryId)}`;
    const stateResponse = await fetch(`${base}/state`, { signal: AbortSignal.timeout(8_000) });
    if (!stateResponse.ok) throw new Error(`SCADA state returned ${stateResponse.status}`);
    const state = (await stateResponse.json()) as { availableKwh: number; committedKwh: number };

    const neededKwh = (wanted.kilowatts * wanted.minutes) / 60;
    if (state.availableKwh - state.committedKwh < neededKwh) return false;
    if (Date.now() + 8_000 > lock.validUntil) throw new Error('Lock would expire before the command ends');

    const command = await fetch(`${base}/set-points`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(wanted),
      signal: AbortSignal.timeout(8_000),
    });
    if (!command.ok) throw new Error(`SCADA command returned ${command.status}`);
    return true;
  } finally {
    await release(lock);
  }
}
