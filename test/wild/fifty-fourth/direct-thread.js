'use strict';

const express = require('express');
const { createClient } = require('redis');
const knex = require('knex')({
  client: 'pg',
  connection: { connectionString: process.env.DATABASE_URL, statement_timeout: 2000, query_timeout: 2500 },
  acquireConnectionTimeout: 2000,
});
const { ulid } = require('ulid');
const pino = require('pino');

const log = pino({ name: 'messages' });
const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => log.error({ err }, 'redis'));

const TTL_MS = 15_000;
const RELEASE = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
  end
  return 0`;

async function withLock(key, fn) {
  const owner = ulid();
  const giveUpAt = Date.now() + 4_000;
  while ((await redis.set(key, owner, { NX: true, PX: TTL_MS })) !== 'OK') {
    if (Date.now() > giveUpAt) {
      throw Object.assign(new Error('thread is being opened'), { status: 409 });
    }
    await new Promise((r) => setTimeout(r, 60 + Math.random() * 60));
  }
  try {
    return await fn();
  } finally {
    await redis
      .eval(RELEASE, { keys: [key], arguments: [owner] })
      .catch((err) => log.warn({ err, key }, 'release failed'));
  }
}

function findThread(from, to) {
  return knex('threads')
    .where({ member_a: from, member_b: to })
    .orWhere({ member_a: to, member_b: from })
    .first();
}

/**
 * Two members of the marketplace share one direct thread, whoever writes first.
 * Threads that predate the rewrite come in both column orders.
 */
async function openThread(from, to) {
  const known = await findThread(from, to);
  if (known) return known;

  return withLock(`thread:open:${from}:${to}`, async () => {
    const existing = await findThread(from, to);
    if (existing) return existing;
    const [thread] = await knex('threads')
      .insert({ id: ulid(), member_a: from, member_b: to, opened_at: knex.fn.now() })
      .returning('*');
    log.info({ thread: thread.id }, 'thread opened');
    return thread;
  });
}

const app = express();
app.use(express.json());

app.post('/members/:to/messages', async (req, res, next) => {
  try {
    const from = req.get('x-member-id');
    const { to } = req.params;
    if (!from || from === to) return res.status(400).json({ error: 'no valid recipient' });

    const thread = await openThread(from, to);
    const [message] = await knex('messages')
      .insert({ id: ulid(), thread_id: thread.id, author: from, body: String(req.body.text).slice(0, 4000) })
      .returning(['id', 'thread_id']);
    return res.status(201).json(message);
  } catch (err) {
    return next(err);
  }
});

app.use((err, _req, res, _next) => {
  log.error({ err }, 'request failed');
  res.status(err.status || 500).json({ error: err.message });
});

redis.connect().then(() => app.listen(Number(process.env.PORT || 3000)));
