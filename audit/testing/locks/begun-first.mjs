import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
let client;

export async function init(url) {
  client = createClient({ url });
  client.on('error', () => {});
  await client.connect();
}

export function lockFor(name) {
  if (client === undefined) throw new Error('init() was not called');
  return {
    async acquire(ttlMs) {
      const token = randomUUID();
      return (await client.set(name, token, { NX: true, PX: ttlMs })) === 'OK' ? token : null;
    },
    release: (token) => client.eval(RELEASE, { keys: [name], arguments: [token] }),
  };
}
