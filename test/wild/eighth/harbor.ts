import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from 'lockstep/testing';

const LOCK = `
for _, key in ipairs(KEYS) do
  local owner = redis.call('get', key)
  if owner and owner ~= ARGV[1] then return 0 end
end
for _, key in ipairs(KEYS) do
  redis.call('set', key, ARGV[1], 'PX', ARGV[2])
end
return 1`;

const UNLOCK = `
local n = 0
for _, key in ipairs(KEYS) do
  if redis.call('get', key) == ARGV[1] then n = n + redis.call('del', key) end
end
return n`;

const pause = (ms: number) => new Promise<void>((done) => setTimeout(done, ms));
const majorityOf = (n: number) => Math.floor(n / 2) + 1;
const lasting = (ttl: number) => ttl - Math.ceil(ttl / 100) - 2;

const timed = (ms: number) => (command: Promise<unknown>): Promise<unknown> =>
  Promise.race([command.catch(() => 'error'), pause(ms).then(() => 'silent')]);

const lockAt = (keys: string[], token: string, ttl: number) => (node: Redis) =>
  node.eval(LOCK, keys.length, ...keys, token, ttl);

const unlockAt = (keys: string[], token: string) => (node: Redis) => node.eval(UNLOCK, keys.length, ...keys, token);

const onAll = (nodes: readonly Redis[], command: (node: Redis) => Promise<unknown>) =>
  Promise.all(nodes.map(command).map(timed(150)));

const attempt = async (nodes: readonly Redis[], keys: string[], ttl: number) => {
  const token = randomUUID();
  const deadline = performance.now() + lasting(ttl);
  const answers = await onAll(nodes, lockAt(keys, token, ttl));
  const release = async () => {
    await onAll(nodes, unlockAt(keys, token));
  };
  if (answers.filter((answer) => answer === 1).length >= majorityOf(nodes.length) && performance.now() < deadline) {
    return { remaining: () => deadline - performance.now(), release };
  }
  await release();
  return null;
};

const lockKeys = async (nodes: readonly Redis[], keys: string[], ttl: number): Promise<unknown> => {
  const held = await attempt(nodes, keys, ttl);
  if (held !== null) return held;
  return lockKeys(nodes, keys, ttl);
};

export const make: MakeLock = ({ nodes }) => ({
  acquire: (resource: string | string[], ttl: number) => lockKeys(nodes, [resource].flat().sort(), ttl),
});
