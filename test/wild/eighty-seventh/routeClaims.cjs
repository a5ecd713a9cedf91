// which truck drives which recycling route. tablets call this through the api
const Redis = require('ioredis');

const CLAIM_MS = 15 * 60 * 1000;
const TRIES = 6;

const nap = (ms) => new Promise((r) => setTimeout(r, ms));

// WATCH belongs to a connection, so: own connection per call, and it never reconnects
async function withConn(fn) {
  const c = new Redis(process.env.REDIS_URL, {
    lazyConnect: true,
    retryStrategy: () => null,
    connectTimeout: 3000,
    commandTimeout: 3000,
  });
  c.on('error', (e) => console.log('redis err', e.message));
  try {
    await c.connect();
    return await fn(c);
  } finally {
    c.disconnect();
  }
}

// fn gives back { out, tx } (tx = queued multi or nothing)
async function watched(key, fn) {
  return withConn(async (c) => {
    for (let i = 1; i <= TRIES; i++) {
      await c.watch(key);
      const step = await fn(c);
      if (!step.tx) return step.out;
      const res = await step.tx.exec();
      if (res) {
        const bad = res.find(([e]) => e);
        if (bad) throw bad[0];
        return step.out;
      }
      console.log('route changed meanwhile, try', i, key);
      await nap(20 * i + Math.random() * 40);
    }
    throw new Error('too busy: ' + key);
  });
}

// clock of the redis box, tablets and pods don't agree on the time
async function clock(c) {
  const [s, us] = await c.time();
  return Number(s) * 1000 + Math.floor(Number(us) / 1000);
}

const rk = (route) => `rc:{${route}}:claim`;
const sk = (route, day) => `rc:{${route}}:stops:${day}`;

async function claim(route, truck) {
  return watched(rk(route), async (c) => {
    const cur = await c.hgetall(rk(route));
    const now = await clock(c);
    if (cur.truck && cur.truck !== truck && Number(cur.until) > now) {
      return { out: { ok: false, truck: cur.truck } };
    }
    const until = now + CLAIM_MS;
    return {
      out: { ok: true, until },
      tx: c.multi().hset(rk(route), { truck, until }),
    };
  });
}

// bins of one stop emptied. also keeps the claim alive
async function stopDone(route, truck, day, stop) {
  return watched(rk(route), async (c) => {
    const cur = await c.hgetall(rk(route));
    const now = await clock(c);
    if (cur.truck !== truck || Number(cur.until) <= now) return { out: { ok: false, truck: cur.truck || null } };
    return {
      out: { ok: true },
      tx: c
        .multi()
        .sadd(sk(route, day), stop)
        .expire(sk(route, day), 14 * 24 * 3600)
        .hset(rk(route), 'until', now + CLAIM_MS),
    };
  });
}

async function giveBack(route, truck) {
  return watched(rk(route), async (c) => {
    const cur = await c.hgetall(rk(route));
    if (cur.truck !== truck) return { out: { ok: false } };
    return { out: { ok: true }, tx: c.multi().del(rk(route)) };
  });
}

module.exports = { claim, stopDone, giveBack };
