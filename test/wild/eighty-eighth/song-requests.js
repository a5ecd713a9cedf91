'use strict';
const express = require('express');
const { randomUUID } = require('node:crypto');
const { createClient } = require('redis');

const { REDIS_URL = 'redis://localhost:6379', PLAYOUT_URL = 'http://playout.internal:8090', PORT = '3000' } = process.env;
const PENDING_MS = 60_000;
const UPSTREAM_MS = 15_000;
const KEEP_MS = 24 * 3_600_000;

const SETTLE = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`;
const ABANDON = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

const redis = createClient({ url: REDIS_URL, disableOfflineQueue: true });
redis.on('error', (err) => console.error('redis', err.message));

const app = express();
app.use(express.json({ limit: '8kb' }));

app.post('/stations/:station/requests', async (req, res, next) => {
  const idem = req.get('Idempotency-Key') ?? '';
  if (!/^[\w-]{16,64}$/.test(idem)) return res.status(400).json({ error: 'Idempotency-Key required' });

  const { station } = req.params;
  const key = `radio:${station}:idem:${idem}`;
  const mark = `pending:${randomUUID()}`;
  try {
    if ((await redis.set(key, mark, { NX: true, PX: PENDING_MS })) !== 'OK') {
      const prior = await redis.get(key);
      if (prior === null || prior.startsWith('pending:')) {
        return res.set('Retry-After', '2').status(409).json({ error: 'request in progress' });
      }
      const { status, body } = JSON.parse(prior);
      return res.set('Idempotent-Replay', 'true').status(status).json(body);
    }

    let answer;
    try {
      answer = await submit(station, idem, req.body);
    } catch (err) {
      await redis.eval(ABANDON, { keys: [key], arguments: [mark] }).catch(warn);
      throw err;
    }
    await redis
      .eval(SETTLE, { keys: [key], arguments: [mark, JSON.stringify(answer), String(KEEP_MS)] })
      .catch(warn);
    res.status(answer.status).json(answer.body);
  } catch (err) {
    next(err);
  }
});

redis.connect().then(() => app.listen(Number(PORT)));

// playout upserts by request id, so repeating the PUT is fine
async function submit(station, id, song) {
  const r = await fetch(`${PLAYOUT_URL}/stations/${encodeURIComponent(station)}/requests/${id}`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(song),
    signal: AbortSignal.timeout(UPSTREAM_MS),
  });
  if (r.status >= 500) throw new Error(`playout answered ${r.status}`);
  return { status: r.status, body: await r.json() };
}

function warn(err) {
  console.warn('idempotency record not updated:', err.message);
}
