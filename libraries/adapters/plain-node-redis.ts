import type { MakeLock } from '../lock-under-test.js';
import { leftOf, type NodeRedis, nodeRedisOf } from './connected.js';
import { LEFT_TO_THE_TTL, type Library } from './library.js';

const DELETE_OWN = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

type Commands = NodeRedis & {
  set(key: string, value: string, options: object): Promise<string | null>;
  eval(script: string, options: { keys: string[]; arguments: string[] }): Promise<unknown>;
};

/** @param module - The client, as `package.json` calls it. */
async function load(module: string): Promise<MakeLock> {
  const clientOf = nodeRedisOf(module);
  return async ({ addresses: [address] }) => {
    const client = clientOf(address) as Commands;
    await client.connect();
    return {
      async acquire(key, ttlMs) {
        const [token, startedAt] = [crypto.randomUUID(), performance.now()];
        const expiration = { type: 'PX', value: ttlMs };
        const isSet = (await client.set(key, token, { condition: 'NX', expiration })) === 'OK';
        const release = (): Promise<unknown> => client.eval(DELETE_OWN, { keys: [key], arguments: [token] });
        const remaining = leftOf(ttlMs, startedAt);
        return isSet && remaining() > 0 ? { remaining, release } : null;
      },
    };
  };
}

function plainOn(id: string, module: string, version: string): Library {
  return {
    id,
    package: 'redis',
    version,
    client: `${module}@npm:redis@${version}`,
    belief: 'for a TTL from the call of SET that was answered with OK, or until its own key is deleted',
    extendsItself: false,
    nodes: 1,
    notPromised: LEFT_TO_THE_TTL,
    load: () => load(module),
  };
}

/** The lock of redis.io for one node, SET NX PX and a script that deletes, above node-redis 5: see `docs/findings/node-redis5-false-lock.md`. */
export const PLAIN_NODE_REDIS_5: Library = plainOn('node-redis-5', 'redis5', '5.12.1');

/** The same above node-redis 6, which does not do that. */
export const PLAIN_NODE_REDIS_6: Library = plainOn('node-redis-6', 'redis', '6.3.1');
