'use strict';

const express = require('express');
const Redis = require('ioredis');
const axios = require('axios');
const { randomUUID } = require('node:crypto');
const pino = require('pino');

const log = pino({ name: 'pdf' });
const redis = new Redis(process.env.REDIS_URL);

// The licence of the renderer allows this many documents at a time over all pods.
const SLOTS = Number(process.env.RENDER_SLOTS || 6);
const SLOT_TTL_MS = 60_000;
const RENDER_LIMIT_MS = 20_000;
const SLOTS_KEY = 'pdf:render-slots';

redis.defineCommand('takeSlot', {
  numberOfKeys: 1,
  lua: `
    local t = redis.call('TIME')
    local now = t[1] * 1000 + math.floor(t[2] / 1000)
    redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
    if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then
      return 0
    end
    redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[3])
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    return 1
  `,
});

async function takeSlot(patienceMs) {
  const member = randomUUID();
  const deadline = Date.now() + patienceMs;
  do {
    if ((await redis.takeSlot(SLOTS_KEY, SLOTS, SLOT_TTL_MS, member)) === 1) return member;
    await new Promise((r) => setTimeout(r, 200 + Math.random() * 200));
  } while (Date.now() < deadline);
  return null;
}

function giveBack(member) {
  return redis.zrem(SLOTS_KEY, member).catch((err) => log.warn({ err, member }, 'slot not given back'));
}

async function render(html) {
  const { data } = await axios.post(
    `${process.env.RENDERER_URL}/render`,
    { html, format: 'A4' },
    {
      responseType: 'arraybuffer',
      timeout: RENDER_LIMIT_MS,
      signal: AbortSignal.timeout(RENDER_LIMIT_MS),
      headers: { 'x-max-render-ms': String(RENDER_LIMIT_MS) },
    },
  );
  return Buffer.from(data);
}

const app = express();
app.use(express.json({ limit: '4mb' }));

app.post('/documents/pdf', async (req, res, next) => {
  let slot;
  try {
    slot = await takeSlot(10_000);
  } catch (err) {
    return next(err);
  }
  if (!slot) {
    return res.status(503).set('retry-after', '15').json({ error: 'all renderers are busy' });
  }

  const began = Date.now();
  let answered = false;
  try {
    const pdf = await render(req.body.html);
    answered = true;
    log.info({ ms: Date.now() - began, bytes: pdf.length }, 'rendered');
    return res.type('application/pdf').send(pdf);
  } catch (err) {
    answered = answered || Boolean(err.response);
    return next(err);
  } finally {
    // Without an answer the renderer may still be at it, for as long as the
    // header lets it. Such a slot comes back by itself.
    if (answered) await giveBack(slot);
  }
});

app.get('/documents/slots', async (_req, res, next) => {
  try {
    res.json({ slots: SLOTS, taken: await redis.zcount(SLOTS_KEY, Date.now(), '+inf') });
  } catch (err) {
    next(err);
  }
});

app.use((err, _req, res, _next) => {
  log.error({ err: err.message }, 'request failed');
  res.status(500).json({ error: 'rendering failed' });
});

app.listen(Number(process.env.PORT || 3000));
