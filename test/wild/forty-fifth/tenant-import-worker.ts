import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import axios from 'axios';
import Redis from 'ioredis';
import { nanoid } from 'nanoid';
import { Pool } from 'pg';
import pino from 'pino';
import { z } from 'zod';

// StatefulSet: host names are stable and each runs one of these processes.
const QUEUE = 'imports:queue';
const MINE = `imports:processing:${hostname()}`;
const DEAD = 'imports:dead';
const LOCK_TTL = 30_000;

const log = pino({ name: 'imports' });
const redis = new Redis(process.env.REDIS_URL!);
const blocking = redis.duplicate();
const pool = new Pool({ connectionString: process.env.DATABASE_URL });

const Job = z.object({ tenantId: z.string(), url: z.string().url(), attempts: z.number().int().default(0) });
type Job = z.infer<typeof Job>;

const RENEW = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`;
const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

function parse(raw: string): Job | null {
  try {
    return Job.parse(JSON.parse(raw));
  } catch {
    return null;
  }
}

async function move(raw: string, to: string, value = raw): Promise<void> {
  await redis.multi().lrem(MINE, 1, raw).rpush(to, value).exec();
}

/** Pages are upserted by external id, a repeated import changes nothing. */
async function runImport(job: Job, signal: AbortSignal): Promise<void> {
  let next: string | null = job.url;
  while (next) {
    signal.throwIfAborted();
    const { data }: { data: { rows: any[]; next: string | null } } = await axios.get(next, { signal, timeout: 20_000 });
    for (const row of data.rows) {
      await pool.query(
        `insert into articles (tenant_id, external_id, data, changed_at) values ($1, $2, $3, $4)
         on conflict (tenant_id, external_id) do update set data = excluded.data, changed_at = excluded.changed_at
         where articles.changed_at < excluded.changed_at`,
        [job.tenantId, row.id, JSON.stringify(row), row.changed_at],
      );
    }
    next = data.next;
  }
}

/**
 * Partners allow one session per tenant and answer a second one with 429, which
 * costs us one attempt; hence one import per tenant at a time.
 */
async function handle(raw: string): Promise<void> {
  const job = parse(raw);
  if (!job) return move(raw, DEAD);

  const key = `imports:tenant:${job.tenantId}`;
  const token = nanoid();
  let validUntil = Date.now() + LOCK_TTL;
  if ((await redis.set(key, token, 'PX', LOCK_TTL, 'NX')) !== 'OK') {
    await sleep(500);
    return move(raw, QUEUE);
  }

  const lost = new AbortController();
  const timer = setInterval(async () => {
    const sentAt = Date.now();
    if (sentAt > validUntil - LOCK_TTL / 3) lost.abort(new Error(`could not renew ${key}`));
    const ok = await redis.eval(RENEW, 1, key, token, LOCK_TTL).catch(() => null);
    if (ok === 1) validUntil = sentAt + LOCK_TTL;
    if (ok === 0) lost.abort(new Error(`lost ${key}`));
  }, LOCK_TTL / 4);

  try {
    await runImport(job, lost.signal);
    await redis.lrem(MINE, 1, raw);
  } catch (err) {
    const attempts = job.attempts + 1;
    log.warn({ err, tenantId: job.tenantId, attempts }, 'import failed');
    await move(raw, attempts < 6 ? QUEUE : DEAD, JSON.stringify({ ...job, attempts }));
  } finally {
    clearInterval(timer);
    await redis.eval(RELEASE, 1, key, token).catch(() => undefined);
  }
}

let stopping = false;
process.once('SIGTERM', () => (stopping = true));

while (!stopping) {
  try {
    // left over from a crash, or from a reply that never reached us
    while (await redis.lmove(MINE, QUEUE, 'LEFT', 'LEFT'));
    const raw = await blocking.blmove(QUEUE, MINE, 'LEFT', 'RIGHT', 5);
    if (raw) await handle(raw);
  } catch (err) {
    log.error({ err }, 'worker loop');
    await sleep(1_000);
  }
}
process.exit(0);
