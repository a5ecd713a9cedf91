'use strict';

const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const { createClient } = require('redis');

const client = createClient({ url: process.env.REDIS_URL });
client.on('error', (err) => console.error('redis', err));

const LOCK_SECONDS = 20;
const WAIT_MS = 8000;

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end
`;

async function acquire(key) {
  const token = randomUUID();
  const until = Date.now() + WAIT_MS;
  while (!(await client.setNX(key, token))) {
    if (Date.now() > until) throw new Error(`timeout waiting for ${key}`);
    await sleep(100);
  }
  // do not keep the lock forever if we crash
  await client.expire(key, LOCK_SECONDS);
  return token;
}

async function release(key, token) {
  await client.eval(UNLOCK, { keys: [key], arguments: [token] });
}

/** Books grain from one silo of the farm into another. Amounts are in kg. */
async function transferGrain(farmId, from, to, kg) {
  if (from === to || !(kg > 0)) throw new RangeError('bad transfer');

  const levels = `farm:${farmId}:levels`;
  const limits = `farm:${farmId}:capacity`;
  const lockKey = `farm:${farmId}:lock`;

  const token = await acquire(lockKey);
  try {
    const [source, target] = await client.hmGet(levels, [from, to]);
    const capacity = Number(await client.hGet(limits, to));
    if (Number(source ?? 0) < kg) throw new Error(`silo ${from} holds only ${source ?? 0} kg`);
    if (Number(target ?? 0) + kg > capacity) throw new Error(`silo ${to} would overflow`);

    await client
      .multi()
      .hSet(levels, from, String(Number(source) - kg))
      .hSet(levels, to, String(Number(target ?? 0) + kg))
      .exec();
  } finally {
    await release(lockKey, token);
  }
}

async function start() {
  if (!client.isOpen) await client.connect();
}

module.exports = { start, transferGrain };
