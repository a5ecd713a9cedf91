import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';

const TTL_MS = 90_000;
const STEP_TIMEOUT_MS = 60_000; // the database rolls a step back after this

const scripts = {
  extend: `if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
           return redis.call('pexpire', KEYS[1], ARGV[2])`,
  release: `if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
            return redis.call('del', KEYS[1])`,
};

export class LockLostError extends Error {
  name = 'LockLostError';
}

/**
 * @param {import('redis').RedisClientType} client
 * @param {string} key
 * @param {{ ttlMs?: number, waitMs?: number }} [options]
 */
async function acquire(client, key, { ttlMs = TTL_MS, waitMs = 0 } = {}) {
  const id = randomUUID();
  const until = Date.now() + waitMs;

  while (!(await client.set(key, id, { NX: true, PX: ttlMs }))) {
    if (Date.now() >= until) return null;
    await delay(500);
  }

  return {
    async extend() {
      const n = await client.eval(scripts.extend, { keys: [key], arguments: [id, String(ttlMs)] });
      if (n !== 1) throw new LockLostError(`${key} is not ours any more`);
    },
    async release() {
      await client.eval(scripts.release, { keys: [key], arguments: [id] });
    },
  };
}

/**
 * Brings the schema of one tenant up to date. Runs at boot of each pod, so usually
 * several pods try the same tenant.
 */
export default async function migrateTenant({ client, db, tenantId, steps, log = console }) {
  const lock = await acquire(client, `migrate:tenant:${tenantId}`, { waitMs: 10_000 });
  if (!lock) {
    log.info(`tenant ${tenantId}: another pod migrates`);
    return { applied: [] };
  }

  const applied = [];
  try {
    const done = new Set(await db.appliedSteps(tenantId));

    for (const step of steps) {
      if (done.has(step.id)) continue;

      // a full TTL for every step
      await lock.extend();
      await db.transaction(
        tenantId,
        async (tx) => {
          await step.up(tx);
          await tx.recordStep(step.id);
        },
        { timeoutMs: STEP_TIMEOUT_MS },
      );
      applied.push(step.id);
      log.info(`tenant ${tenantId}: ${step.id} applied`);
    }
    return { applied };
  } finally {
    await lock.release().catch((err) => log.warn(`tenant ${tenantId}: release: ${err.message}`));
  }
}
