import { randomUUID } from 'node:crypto';

// Takes stock files from the queue and writes the levels into Redis, one
// worker per warehouse. Lock and levels share a hash tag, so each batch is
// written by a script that looks at the lock first and renews it.
const TTL_MS = 30_000;
const BATCH = 200;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const WRITE_BATCH = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('pexpire', KEYS[1], ARGV[2])
for i = 3, #ARGV, 2 do
  redis.call('hset', KEYS[2], ARGV[i], ARGV[i + 1])
end
return 1`;

export class LockLostError extends Error {}

function lockKey(warehouse) {
  return `stock:{${warehouse}}:lock`;
}

function levelsKey(warehouse) {
  return `stock:{${warehouse}}:levels`;
}

/** @returns {Promise<string | null>} the token, or null when another worker has the warehouse */
async function acquire(redis, warehouse) {
  const token = randomUUID();
  try {
    const reply = await redis.set(lockKey(warehouse), token, 'PX', TTL_MS, 'NX');
    return reply === 'OK' ? token : null;
  } catch (err) {
    await release(redis, warehouse, token);
    throw err;
  }
}

async function release(redis, warehouse, token) {
  try {
    await redis.eval(RELEASE, 1, lockKey(warehouse), token);
  } catch (err) {
    console.warn('stock lock left to its TTL', warehouse, err);
  }
}

async function writeBatch(redis, warehouse, token, rows) {
  const written = await redis.eval(
    WRITE_BATCH,
    2,
    lockKey(warehouse),
    levelsKey(warehouse),
    token,
    TTL_MS,
    ...rows.flatMap((row) => [row.sku, row.level]),
  );
  if (written !== 1) throw new LockLostError(`lost the stock lock of ${warehouse}`);
}

/**
 * @param {import('ioredis').Redis} redis
 * @param {{ id: string, warehouse: string, file: string }} job
 * @param {{ rows(file: string): AsyncIterable<{ sku: string, level: number }> }} files
 * @param {{ ack(id: string): Promise<void>, retry(id: string, reason: string): Promise<void> }} queue
 * @returns {Promise<'done' | 'retried'>}
 */
export async function handleJob(redis, job, files, queue) {
  const token = await acquire(redis, job.warehouse);
  if (token === null) {
    await queue.retry(job.id, 'warehouse is being imported');
    return 'retried';
  }

  try {
    let batch = [];
    for await (const row of files.rows(job.file)) {
      batch.push(row);
      if (batch.length === BATCH) {
        await writeBatch(redis, job.warehouse, token, batch);
        batch = [];
      }
    }
    if (batch.length > 0) await writeBatch(redis, job.warehouse, token, batch);
  } catch (err) {
    await queue.retry(job.id, err.message);
    return 'retried';
  } finally {
    await release(redis, job.warehouse, token);
  }

  await queue.ack(job.id);
  return 'done';
}
