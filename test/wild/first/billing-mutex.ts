import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

type Client = ReturnType<typeof createClient>;

let connection: Promise<Client> | undefined;

const getClient = (): Promise<Client> => {
  connection ??= createClient({
    socket: { host: process.env.REDIS_HOST ?? 'localhost', port: Number(process.env.REDIS_PORT ?? 6379) },
    commandOptions: { timeout: 1_000 },
  })
    .on('error', (err) => console.error('[billing]', err.message))
    .connect() as Promise<Client>;
  return connection;
};

const BILLING_LOCK_TTL = 15_000;

const unlock = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  end
  return 0
`;

export interface BillingLock {
  key: string;
  token: string;
}

export async function lockBilling(customerId: string): Promise<BillingLock | undefined> {
  const client = await getClient();
  const lock = { key: `billing:${customerId}`, token: randomUUID() };
  const reply = await client.set(lock.key, lock.token, { NX: true, EX: BILLING_LOCK_TTL });
  return reply === 'OK' ? lock : undefined;
}

export async function unlockBilling({ key, token }: BillingLock): Promise<void> {
  const client = await getClient();
  await client.eval(unlock, { keys: [key], arguments: [token] });
}
