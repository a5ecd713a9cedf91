import { randomUUID } from 'node:crypto';
import Router from '@koa/router';
import { createClient } from 'redis';
import knex from 'knex';
import pino from 'pino';

const log = pino({ name: 'lift-inspections' });
const db = knex({ client: 'pg', connection: process.env.DATABASE_URL });

// Five independent servers, AOF with fsync always, no replicas.
const HOSTS = ['lock1', 'lock2', 'lock3', 'lock4', 'lock5'];
const nodes = HOSTS.map((host) => {
  const client = createClient({ url: `redis://${host}:6379`, disableOfflineQueue: true });
  client.on('error', (err) => log.debug({ host, err: err.message }, 'lock node'));
  client.connect().catch((err) => log.warn({ host, err: err.message }, 'connect'));
  return client;
});

const QUORUM = Math.floor(nodes.length / 2) + 1;
const TTL_MS = 15_000;
const NODE_TIMEOUT_MS = 150;
const MIN_VALIDITY_MS = 10_000;
const RELEASE =
  "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

function limited(promise) {
  let timer;
  const timeout = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('lock node timeout')), NODE_TIMEOUT_MS);
  });
  return Promise.race([promise, timeout]).finally(() => clearTimeout(timer));
}

async function unlock(key, token) {
  await Promise.allSettled(
    nodes.map((n) => limited(n.eval(RELEASE, { keys: [key], arguments: [token] }))),
  );
}

async function lock(key) {
  const token = randomUUID();
  for (let attempt = 0; attempt < 4; attempt += 1) {
    const startedAt = performance.now();
    const replies = await Promise.allSettled(
      nodes.map((n) => limited(n.set(key, token, { NX: true, PX: TTL_MS }))),
    );
    const votes = replies.filter((r) => r.status === 'fulfilled' && r.value === 'OK').length;
    const drift = TTL_MS * 0.01 + 2;
    const validity = TTL_MS - (performance.now() - startedAt) - drift;
    if (votes >= QUORUM && validity > MIN_VALIDITY_MS) return token;
    await unlock(key, token);
    await new Promise((r) => setTimeout(r, 100 + Math.random() * 300));
  }
  return null;
}

async function book(liftId, { inspector, from, to }) {
  return db.transaction(async (trx) => {
    await trx.raw("SET LOCAL statement_timeout = '2s'");
    const lift = await trx('lifts').where({ id: liftId }).first('id', 'schedule_version');
    if (!lift) return { status: 404, body: { error: 'no such lift' } };
    const clash = await trx('inspections')
      .where({ lift_id: liftId, cancelled: false })
      .where('starts_at', '<', to)
      .where('ends_at', '>', from)
      .first('id');
    if (clash) return { status: 409, body: { error: 'slot taken', by: clash.id } };
    const bumped = await trx('lifts')
      .where({ id: liftId, schedule_version: lift.schedule_version })
      .update({ schedule_version: lift.schedule_version + 1 });
    if (bumped !== 1) return { status: 409, body: { error: 'schedule changed, try again' } };
    const [row] = await trx('inspections')
      .insert({ lift_id: liftId, inspector, starts_at: from, ends_at: to, cancelled: false })
      .returning('id');
    return { status: 201, body: { id: row.id } };
  });
}

export const router = new Router();

router.post('/lifts/:id/inspections', async (ctx) => {
  const key = `lift:${ctx.params.id}:schedule`;
  const token = await lock(key);
  if (!token) {
    ctx.status = 503;
    ctx.set('Retry-After', '2');
    return;
  }
  try {
    const out = await book(ctx.params.id, ctx.request.body);
    ctx.status = out.status;
    ctx.body = out.body;
  } finally {
    await unlock(key, token);
  }
});
