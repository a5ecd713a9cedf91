// Imports the contacts of all sales regions. Started by a scheduler on both app servers.
import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

const UNLOCK_SCRIPT = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  end
  return 0
`;

export class LockBusyError extends Error {
  name = 'LockBusyError';
}

export async function connect() {
  const client = createClient({ url: process.env.REDIS_URL ?? 'redis://localhost:6379' });
  client.on('error', (err) => console.error('Redis error', err));
  await client.connect();
  return client;
}

/**
 * Runs `fn` under an exclusive lock.
 *
 * @param {import('redis').RedisClientType} client
 * @param {string} name
 * @param {number} ttlMs
 * @param {() => Promise<any>} fn
 */
export async function withLock(client, name, ttlMs, fn) {
  const key = `lock:${name}`;
  const token = randomUUID();
  const acquired = await client.set(key, token, { NX: true, PX: ttlMs });
  if (acquired !== 'OK') {
    throw new LockBusyError(`${name} is locked`);
  }
  try {
    return await fn();
  } finally {
    try {
      await client.eval(UNLOCK_SCRIPT, { keys: [key], arguments: [token] });
    } catch (err) {
      console.warn(`could not release ${key}`, err);
    }
  }
}

/** @param {{ regions: string[], fetchPage: Function, save: Function }} deps */
export async function importContacts(client, { regions, fetchPage, save }) {
  return withLock(client, 'crm-import', 30_000, async () => {
    let imported = 0;
    for (const region of regions) {
      let page = 1;
      let more = true;
      while (more) {
        const { contacts, hasMore } = await fetchPage(region, page);
        for (const contact of contacts) {
          await save({ ...contact, region });
          imported++;
        }
        more = hasMore;
        page++;
      }
      console.log(`${region}: ${page - 1} pages`);
    }
    return imported;
  });
}
