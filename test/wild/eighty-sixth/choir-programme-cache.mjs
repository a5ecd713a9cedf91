import { Hono } from 'hono';
import { serve } from '@hono/node-server';
import Redis from 'ioredis';
import pg from 'pg';
import { EventEmitter, once } from 'node:events';
import { randomUUID } from 'node:crypto';

const CACHE_S = 300;
const BUILD_MS = 8_000;
const PATIENCE_MS = 6_000;

const redis = new Redis(process.env.REDIS_URL);
const sub = redis.duplicate();
const db = new pg.Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 5_000 });
const ready = new EventEmitter().setMaxListeners(0);

sub.on('pmessage', (_pattern, channel) => ready.emit(channel));
await sub.psubscribe('choir:ready:*');

const keysOf = (id) => ({
  cache: `{choir:${id}}:programme`,
  build: `{choir:${id}}:programme:build`,
  channel: `choir:ready:${id}`,
});

const FILL = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[2], 'EX', ARGV[3])
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', ARGV[4], '1')
return 1`;
const DROP = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', ARGV[2], '0')
return 1`;

async function load(id) {
  const { rows } = await db.query(
    `SELECT r.id, r.starts_at, r.hall, array_agg(p.title ORDER BY p.position) AS pieces
       FROM rehearsals r JOIN rehearsal_pieces p ON p.rehearsal_id = r.id
      WHERE r.choir_id = $1 AND r.starts_at > now() GROUP BY r.id ORDER BY r.starts_at`, [id]);
  return rows;
}

async function build(id, k, token) {
  try {
    const hit = await redis.get(k.cache);
    if (hit) {
      await redis.eval(DROP, 1, k.build, token, k.channel);
      return JSON.parse(hit);
    }
    const rows = await load(id);
    await redis.eval(FILL, 2, k.build, k.cache, token, JSON.stringify(rows), CACHE_S, k.channel)
      .catch((err) => console.warn('fill', id, err.message));
    return rows;
  } catch (err) {
    await redis.eval(DROP, 1, k.build, token, k.channel).catch(() => {});
    throw err;
  }
}

export async function programme(id) {
  const k = keysOf(id);
  const until = Date.now() + PATIENCE_MS;
  while (Date.now() < until) {
    const woken = once(ready, k.channel, { signal: AbortSignal.timeout(400) }).catch(() => {});
    const hit = await redis.get(k.cache);
    if (hit) return JSON.parse(hit);

    const token = randomUUID();
    if ((await redis.set(k.build, token, 'PX', BUILD_MS, 'NX')) === 'OK') return build(id, k, token);
    await woken;
  }
  return load(id);
}

// Called once a change to a rehearsal is committed; a build that is under way then has nowhere to store.
export async function changed(id) {
  const k = keysOf(id);
  await redis.del(k.cache, k.build);
}

const app = new Hono();
app.get('/choirs/:id{[0-9]+}/programme', async (c) => c.json(await programme(c.req.param('id'))));
app.put('/choirs/:id{[0-9]+}/rehearsals/:rid{[0-9]+}', async (c) => {
  const { hall } = await c.req.json();
  const { id, rid } = c.req.param();
  const { rowCount } = await db.query('UPDATE rehearsals SET hall = $1 WHERE id = $2 AND choir_id = $3', [hall, rid, id]);
  await changed(id);
  return c.json({ updated: rowCount });
});

serve({ fetch: app.fetch, port: Number(process.env.PORT ?? 3000) });
