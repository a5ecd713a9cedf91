// passport photo upload -> biometric check at the vendor
// vendor contract: max 4 calls at a time over all our pods, or they block the account for an hour
const express = require('express');
const Redis = require('ioredis');
const { randomUUID } = require('crypto');

const redis = new Redis(process.env.REDIS_URL, { maxRetriesPerRequest: 1, commandTimeout: 2000 });
redis.on('error', (e) => console.log('redis', e.message));

const MAX = 4;
const SLOT_MS = 60000;
const CHECK_MS = 12000;
const KEY = 'photo:vendor:slots';

const TAKE = `
local t = redis.call('time')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('zremrangebyscore', KEYS[1], '-inf', now)
if redis.call('zcard', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('zadd', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
redis.call('pexpire', KEYS[1], ARGV[3])
return 1`;

const wait = (ms) => new Promise((r) => setTimeout(r, ms));

async function takeSlot(id) {
  const end = Date.now() + 10000;
  while (Date.now() < end) {
    if ((await redis.eval(TAKE, 1, KEY, id, MAX, SLOT_MS)) === 1) return true;
    await wait(150 + Math.random() * 150);
  }
  return false;
}

async function vendorCheck(buf, country) {
  const fd = new FormData();
  fd.append('country', country);
  fd.append('photo', new Blob([buf], { type: 'image/jpeg' }), 'photo.jpg');
  const res = await fetch('https://api.facecheck.example/v2/icao', {
    method: 'POST',
    headers: { authorization: `Bearer ${process.env.FACECHECK_KEY}` },
    body: fd,
  });
  if (!res.ok) throw new Error('vendor said ' + res.status);
  return res.json();
}

function limit(p, ms) {
  let t;
  return Promise.race([
    p,
    new Promise((_, rej) => {
      t = setTimeout(() => rej(Object.assign(new Error('check took too long'), { code: 'SLOW' })), ms);
    }),
  ]).finally(() => clearTimeout(t));
}

const app = express();

app.post('/photos/:country/check', express.raw({ type: 'image/jpeg', limit: '8mb' }), async (req, res) => {
  const id = randomUUID();
  try {
    if (!(await takeSlot(id))) return res.status(429).json({ error: 'busy, please try again' });
    const t0 = Date.now();
    const out = await limit(vendorCheck(req.body, req.params.country), CHECK_MS);
    console.log('check', id, out.ok ? 'ok' : 'rejected', Date.now() - t0, 'ms');
    res.json({ ok: out.ok, reasons: out.reasons || [] });
  } catch (e) {
    console.log('check failed', id, e.message);
    res.status(e.code === 'SLOW' ? 504 : 502).json({ error: 'check not possible right now' });
  } finally {
    await redis.zrem(KEY, id).catch((e) => console.log('slot not freed', id, e.message));
  }
});

app.listen(process.env.PORT || 3000, () => console.log('photo check up'));
