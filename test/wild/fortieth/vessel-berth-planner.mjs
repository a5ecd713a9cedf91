// Berth planning: whenever an ETA changes the plan of that port is recomputed.
// ETA messages come in bursts, several planner instances listen.

import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import knexFactory from 'knex';
import pino from 'pino';

const log = pino({ name: 'berth-planner' });
const knex = knexFactory({ client: 'pg', connection: process.env.DATABASE_URL });

// five stand-alone instances, no replication between them
const nodes = process.env.LOCK_NODES.split(',').map((url) => {
  const node = new Redis(url, {
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    commandTimeout: 200,
  });
  node.on('error', (err) => log.debug({ err, url }, 'lock node'));
  return node;
});

const TTL_MS = 20_000;
const MAJORITY = Math.floor(nodes.length / 2) + 1;
const DRIFT_MS = Math.ceil(TTL_MS * 0.01) + 2;

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

async function unlock(key, token) {
  await Promise.allSettled(nodes.map((node) => node.eval(UNLOCK, 1, key, token)));
}

async function lock(key, { attempts = 20 } = {}) {
  for (let i = 0; i < attempts; i += 1) {
    const token = randomBytes(16).toString('hex');
    const startedAt = performance.now();
    const votes = await Promise.allSettled(
      nodes.map((node) => node.set(key, token, 'PX', TTL_MS, 'NX')),
    );
    const granted = votes.filter((v) => v.status === 'fulfilled' && v.value === 'OK').length;
    const leftMs = TTL_MS - (performance.now() - startedAt) - DRIFT_MS;
    if (granted >= MAJORITY && leftMs > 0) return { token, leftMs };
    await unlock(key, token);
    await sleep(100 + Math.random() * 300);
  }
  return null;
}

async function solve(port, vessels, signal) {
  const res = await fetch(`${process.env.SOLVER_URL}/berths`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ port, vessels }),
    signal,
  });
  if (!res.ok) throw new Error(`solver: ${res.status}`);
  return res.json();
}

/** Resolves to false if somebody else is at it or was faster; the caller requeues the message then. */
export async function replan(port) {
  const key = `berth-plan:${port}`;
  const held = await lock(key);
  if (!held) return false;

  try {
    const signal = AbortSignal.timeout(Math.max(1, Math.floor(held.leftMs - 3_000)));
    const current = await knex('berth_plans').where({ port }).first('revision');
    const vessels = await knex('vessel_calls').where({ port, status: 'expected' }).orderBy('eta');
    const plan = await solve(port, vessels, signal);
    signal.throwIfAborted();

    const written = await knex('berth_plans')
      .where({ port, revision: current.revision })
      .update({
        plan: JSON.stringify(plan),
        revision: current.revision + 1,
        planned_at: knex.fn.now(),
      });
    if (written !== 1) log.warn({ port, revision: current.revision }, 'plan changed under us');
    return written === 1;
  } finally {
    await unlock(key, held.token);
  }
}
