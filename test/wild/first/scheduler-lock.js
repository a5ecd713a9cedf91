import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';

const nodes = ['localhost:7001', 'localhost:7002', 'localhost:7003'].map((address) => {
  const redis = new Redis(`redis://${address}`, { commandTimeout: 500, maxRetriesPerRequest: 0 });
  redis.on('error', () => {});
  return redis;
});

const QUORUM = 2;
const TTL = 10_000;
const DRIFT = TTL * 0.01 + 2;
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

let value;

async function lock(task) {
  value = randomUUID();
  const start = performance.now();
  const oks = await Promise.all(nodes.map((node) => node.set(task, value, 'PX', TTL, 'NX').catch(() => null)));
  const until = start + TTL - DRIFT;
  if (oks.filter((ok) => ok === 'OK').length >= QUORUM && performance.now() < until) return until;
  await unlock(task);
  return 0;
}

async function unlock(task) {
  await Promise.all(nodes.map((node) => node.eval(UNLOCK, 1, task, value).catch(() => 0)));
}

/**
 * Runs a task of the scheduler, unless another scheduler is running it. Tasks of different names run side by side.
 * @param {string} task
 * @param {(signal: AbortSignal) => Promise<void>} run
 */
export async function runTask(task, run) {
  const until = await lock(task);
  if (!until) return false;
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(), until - performance.now());
  try {
    await run(controller.signal);
    return true;
  } finally {
    clearTimeout(timer);
    await unlock(task);
  }
}

export default runTask;
