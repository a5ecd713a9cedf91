// prices for the auction clock screens
const express = require('express');
const { createClient } = require('redis'); // v5
const { randomUUID } = require('crypto');
const db = require('./db'); // knex instance

const r = createClient({
  url: process.env.REDIS_URL,
  disableOfflineQueue: true,
  pingInterval: 2000,
  socket: { socketTimeout: 5000 },
});
r.on('error', (e) => console.log('[redis]', e.message));

const FRESH = 20; // s
const LOCK = 8000; // ms
const PATIENCE = 10000; // ms

// store the list + drop the lock in one go, only when it is still our lock
const PUT = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('set', KEYS[2], ARGV[2], 'EX', ARGV[3])
redis.call('del', KEYS[1])
return 1`;
const DROP = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

const wait = (ms) => new Promise((res) => setTimeout(res, ms));
const lk = (m) => `{px:${m}}:lock`;
const ck = (m) => `{px:${m}}:list`;

// big ugly query, takes 1-2 s on a Friday
async function loadPrices(market) {
  console.log('loading', market);
  return db('lots')
    .select('flower', 'grade')
    .avg({ price: 'cents_per_stem' })
    .where({ market })
    .andWhere('sold_at', '>', db.raw("now() - interval '2 hours'"))
    .groupBy('flower', 'grade')
    .timeout(5000, { cancel: true });
}

async function loadAndPut(market, tok) {
  try {
    const s = await r.get(ck(market)); // maybe filled in between
    if (s) return JSON.parse(s);
    const rows = await loadPrices(market);
    await r
      .eval(PUT, { keys: [lk(market), ck(market)], arguments: [tok, JSON.stringify(rows), String(FRESH)] })
      .catch((e) => console.log('cache write failed', e.message));
    return rows;
  } finally {
    await r.eval(DROP, { keys: [lk(market)], arguments: [tok] }).catch((e) => console.log('drop failed', e.message));
  }
}

async function viaRedis(market) {
  const end = Date.now() + PATIENCE;
  const tok = randomUUID();
  while (Date.now() < end) {
    const s = await r.get(ck(market));
    if (s) return JSON.parse(s);
    if ((await r.set(lk(market), tok, { NX: true, PX: LOCK })) === 'OK') return loadAndPut(market, tok);
    await wait(150 + Math.random() * 100);
  }
  throw new Error('nobody loaded ' + market);
}

// one load per market and pod, screens of the same hall ask all at once
const running = new Map();
function prices(market) {
  let p = running.get(market);
  if (!p) {
    p = (r.isReady ? viaRedis(market) : loadPrices(market)).finally(() => running.delete(market));
    running.set(market, p);
  }
  return p;
}

const app = express();

app.get('/clock/:market/prices', async (req, res) => {
  if (!/^[a-z]{3,12}$/.test(req.params.market)) return res.status(404).end();
  try {
    res.json(await prices(req.params.market));
  } catch (e) {
    console.log('ERR prices', e);
    res.status(503).json({ error: 'prices not available' });
  }
});

r.connect().catch((e) => console.log('redis connect', e.message));
app.listen(process.env.PORT || 3000, () => console.log('clock api up'));
