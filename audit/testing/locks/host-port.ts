import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

interface Settings {
  host: string;
  port: number;
  password?: string;
  leaseMs?: number;
}

interface Lock {
  unlock(): Promise<unknown>;
}

interface Locker {
  lock(name: string): Promise<Lock | null>;
}

export function createLocker({ host, port, password, leaseMs = 6_000 }: Settings): Locker {
  const client = createClient({ socket: { host, port }, ...(password === undefined ? {} : { password }) });
  client.on('error', () => {});
  const ready = client.connect();
  return {
    async lock(name: string) {
      await ready;
      const token = randomUUID();
      if ((await client.set(name, token, { NX: true, PX: leaseMs })) === null) return null;
      return { unlock: () => client.eval(RELEASE, { keys: [name], arguments: [token] }) };
    },
  };
}
