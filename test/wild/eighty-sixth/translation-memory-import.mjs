import { Worker } from 'bullmq';
import Redis from 'ioredis';
import Redlock from 'redlock5';
import pg from 'pg';
import pino from 'pino';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';

const log = pino({ name: 'tm-import' });
const TTL = 30_000;

const connection = new Redis(process.env.REDIS_URL, { maxRetriesPerRequest: null });
const lockRedis = new Redis(process.env.REDIS_URL, { commandTimeout: 3_000 });
const redlock = new Redlock([lockRedis], { retryCount: 30, retryDelay: 1_000, retryJitter: 300 });
redlock.on('error', (err) => log.debug({ err }, 'redlock'));

const db = new pg.Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 5_000 });

async function* chunks(url, size) {
  const res = await fetch(url);
  if (!res.ok) throw new Error(`${url}: ${res.status}`);
  let units = [];
  for await (const line of createInterface({ input: Readable.fromWeb(res.body) })) {
    if (!line) continue;
    units.push(JSON.parse(line));
    if (units.length === size) {
      yield units;
      units = [];
    }
  }
  if (units.length) yield units;
}

const worker = new Worker('tm-import', async (job) => {
  const { clientId, pair, fileUrl } = job.data;
  const lock = await redlock.acquire([`tm:${clientId}:${pair}`], TTL);
  let lost;
  const beat = setInterval(() => {
    lock.extend(TTL).catch((err) => {
      lost ??= err;
      log.warn({ err, job: job.id }, 'could not extend');
    });
  }, TTL / 3);

  try {
    const { rows: [{ gen }] } = await db.query(
      'SELECT coalesce(max(generation), 0) + 1 AS gen FROM tm_units WHERE client_id = $1 AND pair = $2', [clientId, pair]);
    let count = 0;
    for await (const units of chunks(fileUrl, 1_000)) {
      if (lost) throw new Error('memory lock lost', { cause: lost });
      await db.query(
        `INSERT INTO tm_units (client_id, pair, generation, source, target)
         SELECT $1, $2, $3, u->>'source', u->>'target' FROM jsonb_array_elements($4::jsonb) u`,
        [clientId, pair, gen, JSON.stringify(units)]);
      count += units.length;
      await job.updateProgress({ count });
    }
    if (lost) throw new Error('memory lock lost', { cause: lost });
    await db.query(
      `INSERT INTO tm_current (client_id, pair, generation) VALUES ($1, $2, $3)
       ON CONFLICT (client_id, pair) DO UPDATE SET generation = greatest(tm_current.generation, excluded.generation)`,
      [clientId, pair, gen]);
    return { generation: gen, count };
  } finally {
    clearInterval(beat);
    await lock.release().catch((err) => log.warn({ err, job: job.id }, 'release'));
  }
}, { connection, concurrency: 4 });

worker.on('failed', (job, err) => log.error({ err, job: job?.id }, 'import failed'));
process.once('SIGTERM', () => worker.close().then(() => process.exit(0)));
