import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;
const LOCK_MS = 20_000;

const client = createClient({ url: process.env.REDIS_URL ?? '', disableOfflineQueue: true }).on('error', () => {});
client.connect().catch(() => {});

interface InvoiceLock {
  key: string;
  token: string;
}

export async function lockInvoice(number: string): Promise<InvoiceLock | null> {
  const lock = { key: `invoice:${number}`, token: randomUUID() };
  return (await client.set(lock.key, lock.token, { NX: true, EX: LOCK_MS })) === 'OK' ? lock : null;
}

export async function unlockInvoice({ key, token }: InvoiceLock): Promise<void> {
  await client.eval(RELEASE, { keys: [key], arguments: [token] });
}
