import { Hono } from 'hono';
import { Redis } from '@upstash/redis';

type Job = (slot: Date, signal: AbortSignal) => Promise<void>;

const redis = Redis.fromEnv();
const RUNNING_MS = 120_000;
const BUDGET_MS = 50_000;
const DONE_MS = 2 * 24 * 3_600_000;

const jobs = new Map<string, Job>([
  ['bulletin', (slot, signal) => put(`bulletins/${slot.toISOString()}`, { region: 'all' }, signal)],
  ['snowpack', (slot, signal) => put(`snowpack/${slot.toISOString()}`, { stations: process.env.STATIONS }, signal)],
]);

const app = new Hono();

// two schedulers in two regions ping this with the same scheduledAt
app.post('/cron/:job', async (c) => {
  if (c.req.header('authorization') !== `Bearer ${process.env.CRON_SECRET}`) return c.text('unauthorized', 401);
  const name = c.req.param('job');
  const job = jobs.get(name);
  const { scheduledAt } = await c.req.json<{ scheduledAt: string }>();
  const slot = new Date(scheduledAt);
  if (!job || Number.isNaN(slot.getTime())) return c.text('bad job or slot', 400);

  const key = `cron:${name}:${slot.toISOString()}`;
  const run = crypto.randomUUID();
  if (!(await script(CLAIM, key, run, RUNNING_MS))) return c.json({ skipped: true });

  try {
    await job(slot, AbortSignal.timeout(BUDGET_MS));
  } catch (err) {
    await script(DROP, key, run, 0).catch(() => false);
    return c.json({ error: String(err) }, 500);
  }
  await script(DONE, key, run, DONE_MS).catch((err) => console.warn('slot not marked done', key, err));
  return c.json({ ran: slot.toISOString() });
});

export default app;

async function script(lua: string, key: string, run: string, ms: number): Promise<boolean> {
  return (await redis.eval<[string, number], number>(lua, [key], [run, ms])) === 1;
}

async function put(path: string, body: unknown, signal: AbortSignal): Promise<void> {
  const r = await fetch(`${process.env.PUBLISH_URL}/${path}`, { method: 'PUT', body: JSON.stringify(body), signal });
  if (!r.ok) throw new Error(`publish ${path}: ${r.status}`);
}

const CLAIM = `
local cur = redis.call('GET', KEYS[1])
if cur and cur ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`;
const DONE = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], 'done', 'PX', ARGV[2])
return 1`;
const DROP = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;
