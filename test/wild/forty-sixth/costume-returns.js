#!/usr/bin/env node
import { readFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import Redis from 'ioredis';
import Redlock from 'redlock4';
import knex from 'knex';
import pino from 'pino';

const log = pino({ name: 'costume-returns' });
const db = knex({
  client: 'pg',
  connection: { connectionString: process.env.DATABASE_URL, statement_timeout: 2_000 },
  acquireConnectionTimeout: 3_000,
});
const redis = new Redis(process.env.REDIS_URL);
const redlock = new Redlock([redis], { retryCount: 10, retryDelay: 500, retryJitter: 200 });
redlock.on('clientError', (err) => log.warn({ err: err.message }, 'redis'));

const LOCK_MS = 120_000;
const BATCH = 5;

async function withWardrobe(house, fn) {
  const lock = await redlock.lock(`wardrobe:${house}`, LOCK_MS);
  try {
    return fn();
  } finally {
    try {
      await lock.unlock();
    } catch (err) {
      log.warn({ err: err.message, house }, 'unlock failed, the lock runs out by itself');
    }
  }
}

async function takeBack(house, line) {
  const costume = await db('costumes').where({ house, tag: line.tag }).first();
  if (!costume) {
    log.warn({ tag: line.tag }, 'tag not in this wardrobe');
    return false;
  }
  if (costume.status !== 'lent') return false;

  const rack = await db('racks').where({ house, size: costume.size }).orderBy('hanging', 'asc').first();
  if (!rack || rack.hanging >= rack.capacity) throw new Error(`no rack free for size ${costume.size}`);

  const status = line.needsCleaning ? 'cleaning' : 'in_stock';
  await db.transaction(async (trx) => {
    await trx('costumes').where({ id: costume.id }).update({ status, rack_id: rack.id, borrower_id: null });
    await trx('racks').where({ id: rack.id }).update({ hanging: rack.hanging + 1 });
  });
  return true;
}

async function takeBackAll(house, lines) {
  let taken = 0;
  for (const line of lines) {
    if (await takeBack(house, line)) taken += 1;
  }
  return taken;
}

async function main() {
  const { values } = parseArgs({
    options: { house: { type: 'string' }, file: { type: 'string' } },
  });
  if (!values.house || !values.file) throw new Error('usage: costume-returns --house H --file scan.json');
  const lines = JSON.parse(await readFile(values.file, 'utf8'));

  // Several desks run this after the last performance; racks are counted under the wardrobe lock.
  let taken = 0;
  for (let i = 0; i < lines.length; i += BATCH) {
    const batch = lines.slice(i, i + BATCH);
    taken += await withWardrobe(values.house, () => takeBackAll(values.house, batch));
    log.info({ done: Math.min(i + BATCH, lines.length), of: lines.length }, 'batch');
  }
  log.info({ taken }, 'returns booked');
}

try {
  await main();
} catch (err) {
  log.error(err);
  process.exitCode = 1;
} finally {
  await db.destroy();
  redis.disconnect();
}
