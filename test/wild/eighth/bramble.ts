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

const persistently = (command: (node: Redis) => Promise<unknown>) => async (node: Redis) => {
  const first = command(node).catch(() => 'error');
  const quick = await Promise.race([first, pause(40).then(() => 'silent')]);
  if (quick !== 'silent') return [quick];
  const second = command(node);
  return Promise.all([first, second].map(timed(260)));
};

const onAll = (nodes: readonly Redis[], command: (node: Redis) => Promise<unknown>) =>
  Promise.all(nodes.map(command).map(timed(150)));

const attempt = async (nodes: readonly Redis[], keys: string[], ttl: number) => {
  const token = randomUUID();
  const deadline = performance.now() + lasting(ttl);
  const answers = (await Promise.all(nodes.map(persistently(lockAt(keys, token, ttl))))).flat();
  const release = async () => {
    await onAll(nodes, unlockAt(keys, token));
  };
  if (answers.filter((answer) => answer === 1).length >= majorityOf(nodes.length) && performance.now() < deadline) {
    return { remaining: () => deadline - performance.now(), release };
  }
  await release();
  return null;
};

const lockKeys = async (nodes: readonly Redis[], keys: string[], ttl: number, tries: number): Promise<unknown> => {
  const held = await attempt(nodes, keys, ttl);
  if (held !== null || tries <= 1) return held;
  await pause(50 + Math.random() * 150);
  return lockKeys(nodes, keys, ttl, tries - 1);
};

export const make: MakeLock = ({ nodes }) => ({
  acquire: (resource: string | string[], ttl: number) => lockKeys(nodes, [resource].flat().sort(), ttl, 5),
});
