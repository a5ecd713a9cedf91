// Festival site: line-up page. When tickets go on sale we get 5000 visitors in a minute and the
// CMS dies if they all hit it when the cache is empty. So only one request goes to the CMS.
import { Hono } from 'hono';
import { serve } from '@hono/node-server';
import { createClient } from 'redis';
import { randomUUID } from 'node:crypto';

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => console.log('Redis error', err));
await redis.connect();

const CACHE_SECONDS = 60;
const LOCK_MS = 10000; // CMS request stops after 5 sec

const UNLOCK = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  end
  return 0
`;

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function fetchLineup(year) {
  const res = await fetch(`${process.env.CMS_URL}/lineup/${year}`, { signal: AbortSignal.timeout(5000) });
  if (!res.ok) throw new Error('CMS error ' + res.status);
  return res.text();
}

async function getLineup(year) {
  const cacheKey = `lineup:${year}`;
  const lockKey = `lineup:${year}:lock`;

  // try for 6 seconds
  for (let i = 0; i < 60; i++) {
    const cached = await redis.get(cacheKey);
    if (cached) return cached;

    const token = randomUUID();
    const gotIt = await redis.set(lockKey, token, { NX: true, PX: LOCK_MS });
    if (gotIt) {
      try {
        // maybe somebody filled it between our get and our lock
        const again = await redis.get(cacheKey);
        if (again) return again;

        const json = await fetchLineup(year);
        await redis.set(cacheKey, json, { EX: CACHE_SECONDS });
        return json;
      } finally {
        await redis.eval(UNLOCK, { keys: [lockKey], arguments: [token] });
      }
    }

    // somebody else is getting it, wait a bit
    await sleep(100);
  }

  throw new Error('no line-up after 6 seconds');
}

const app = new Hono();

app.get('/api/lineup/:year{[0-9]+}', async (c) => {
  try {
    const json = await getLineup(c.req.param('year'));
    return c.body(json, 200, { 'content-type': 'application/json' });
  } catch (err) {
    console.error(err);
    return c.json({ error: 'Please try again' }, 503);
  }
});

serve({ fetch: app.fetch, port: 3000 });
