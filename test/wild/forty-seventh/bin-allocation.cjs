'use strict';

const Redis = require('ioredis');
const { randomBytes } = require('node:crypto');
const { performance } = require('node:perf_hooks');
const { setTimeout: sleep } = require('node:timers/promises');
const { db } = require('../db'); // knex
const logger = require('../logger');

const nodes = process.env.LOCK_NODES.split(',').map((url) => {
  const node = new Redis(url, {
    commandTimeout: 200,
    maxRetriesPerRequest: 0,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
  });
  node.on('error', (err) => logger.debug({ err, url }, 'lock node error'));
  return node;
});

const QUORUM = Math.floor(nodes.length / 2) + 1;
const TTL_MS = 12000;
const MIN_LEFT_MS = 8000;
const DRIFT_MS = Math.ceil(TTL_MS * 0.01) + 2;

const COMPARE_AND_DELETE = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
  end
  return 0
`;

class LockUnavailable extends Error {}
class LockExpired extends Error {}
class StaleBin extends Error {}

function releaseAll(key, token) {
  return Promise.allSettled(nodes.map((n) => n.eval(COMPARE_AND_DELETE, 1, key, token)));
}

async function acquire(key, attempts = 10) {
  for (let i = 0; i < attempts; i++) {
    const token = randomBytes(20).toString('hex');
    const startedAt = performance.now();
    const votes = await Promise.all(
      nodes.map((n) =>
        n.set(key, token, 'PX', TTL_MS, 'NX').then(
          (reply) => reply === 'OK',
          () => false,
        ),
      ),
    );
    const validUntil = startedAt + TTL_MS - DRIFT_MS;
    const granted = votes.filter(Boolean).length;
    if (granted >= QUORUM && validUntil - performance.now() >= MIN_LEFT_MS) {
      return { key, token, validUntil };
    }
    await releaseAll(key, token);
    await sleep(60 + Math.random() * 200);
  }
  throw new LockUnavailable(`no majority for ${key}`);
}

async function allocateBin({ warehouseId, zone, orderLineId, qty }) {
  const lock = await acquire(`wh:${warehouseId}:zone:${zone}`);
  try {
    return await db.transaction(async (trx) => {
      await trx.raw("SET LOCAL statement_timeout = '1500ms'");

      const bin = await trx('bins')
        .where({ warehouse_id: warehouseId, zone })
        .andWhere('free', '>=', qty)
        .orderBy([{ column: 'free' }, { column: 'walk_distance' }])
        .first();
      if (!bin) return null;

      const changed = await trx('bins')
        .where({ id: bin.id, version: bin.version })
        .update({ free: bin.free - qty, version: bin.version + 1 });
      if (changed !== 1) throw new StaleBin(`bin ${bin.id} changed`);

      // order_line_id is the primary key
      await trx('allocations').insert({ order_line_id: orderLineId, bin_id: bin.id, qty });

      if (performance.now() >= lock.validUntil) {
        throw new LockExpired(`${lock.key} ran out before commit`);
      }
      return bin.id;
    });
  } finally {
    await releaseAll(lock.key, lock.token);
  }
}

module.exports = { allocateBin, LockUnavailable, LockExpired, StaleBin };
