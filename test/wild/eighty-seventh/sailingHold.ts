// cabin holds for the booking widget. 10 min to pay, then cabins are free again
import { randomUUID } from 'node:crypto';
import { Hono } from 'hono';
import Redis from 'ioredis';
import knex from 'knex';

const redis = new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: 2, commandTimeout: 3000 });
redis.on('error', (e) => console.log('redis:', e.message));
const db = knex({ client: 'pg', connection: process.env.DATABASE_URL, pool: { min: 0, max: 10 }, acquireConnectionTimeout: 5000 });

const HOLD_MS = 10 * 60 * 1000;
const PAY_MS = 2 * 60 * 1000;

// all or nothing
const HOLD = `
for i, k in ipairs(KEYS) do
  local v = redis.call('get', k)
  if v and v ~= ARGV[1] then return i end
end
for _, k in ipairs(KEYS) do redis.call('set', k, ARGV[1], 'PX', ARGV[2]) end
return 0`;

const PROLONG = `
for _, k in ipairs(KEYS) do
  if redis.call('get', k) ~= ARGV[1] then return 0 end
end
for _, k in ipairs(KEYS) do
  if redis.call('pttl', k) < tonumber(ARGV[2]) then redis.call('pexpire', k, ARGV[2]) end
end
return 1`;

const DROP = `
for _, k in ipairs(KEYS) do
  if redis.call('get', k) == ARGV[1] then redis.call('del', k) end
end
return 1`;

const keysOf = (sailing: string, cabins: string[]) => cabins.map((c) => `hold:{${sailing}}:${c}`);

async function drop(keys: string[], id: string) {
  await redis.eval(DROP, keys.length, ...keys, id).catch((e) => console.log('drop failed', id, e.message));
}

function cabinsOf(body: any): string[] | null {
  const cabins = [...new Set((Array.isArray(body?.cabins) ? body.cabins : []) as string[])];
  if (!cabins.length || cabins.length > 8 || !cabins.every((c) => /^\d{3,4}[A-D]?$/.test(String(c)))) return null;
  return cabins.map(String).sort();
}

export const app = new Hono();

app.post('/sailings/:id/holds', async (c) => {
  const sailing = c.req.param('id');
  const cabins = cabinsOf(await c.req.json());
  if (!cabins) return c.json({ error: 'cabins?' }, 400);
  const keys = keysOf(sailing, cabins);
  const id = randomUUID();
  try {
    const taken = Number(await redis.eval(HOLD, keys.length, ...keys, id, HOLD_MS));
    if (taken) return c.json({ error: 'held', cabin: cabins[taken - 1] }, 409);
    const sold = await db('bookings').where({ sailing_id: sailing }).whereIn('cabin', cabins).select('cabin');
    if (sold.length) {
      await drop(keys, id);
      return c.json({ error: 'sold', cabin: sold[0].cabin }, 409);
    }
  } catch (e) {
    console.log('hold failed', sailing, e);
    await drop(keys, id);
    return c.json({ error: 'try again' }, 503);
  }
  return c.json({ hold: id, cabins, seconds: HOLD_MS / 1000 }, 201);
});

// called by the desk once the invoice is settled. bookings has UNIQUE (sailing_id, cabin)
app.post('/sailings/:id/holds/:hold/confirm', async (c) => {
  const sailing = c.req.param('id');
  const hold = c.req.param('hold');
  const cabins = cabinsOf(await c.req.json());
  if (!cabins) return c.json({ error: 'cabins?' }, 400);
  const keys = keysOf(sailing, cabins);

  const mine = async () => {
    const n = await db('bookings').where({ sailing_id: sailing, hold_id: hold }).whereIn('cabin', cabins).select('cabin');
    return n.length === cabins.length;
  };

  if (await mine()) return c.json({ ok: true });
  if (Number(await redis.eval(PROLONG, keys.length, ...keys, hold, PAY_MS)) !== 1) {
    return c.json({ error: 'hold has run out' }, 410);
  }
  try {
    // one statement = all cabins or none
    await db('bookings')
      .insert(cabins.map((cabin) => ({ sailing_id: sailing, cabin, hold_id: hold })))
      .timeout(10000, { cancel: true });
  } catch (e: any) {
    if (e.code !== '23505') throw e;
    if (!(await mine())) return c.json({ error: 'sold' }, 409);
  }
  await drop(keys, hold);
  return c.json({ ok: true });
});

app.onError((e, c) => {
  console.log('ERR', c.req.path, e);
  return c.json({ error: 'oops' }, 500);
});
