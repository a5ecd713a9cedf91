import { randomBytes } from 'node:crypto';
import { PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import Redis from 'ioredis';
import pg from 'pg';
import pino from 'pino';

const log = pino({ name: 'lab-export' });

const nodes = process.env.LOCK_NODES.split(',').map((url) => {
  const client = new Redis(url, {
    commandTimeout: 250,
    connectTimeout: 1_000,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
  });
  client.on('error', (err) => log.debug({ err, url }, 'lock node error'));
  return client;
});
const QUORUM = Math.floor(nodes.length / 2) + 1;

const s3 = new S3Client({ region: process.env.AWS_REGION });
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, query_timeout: 20_000 });

const TTL_MS = 120_000;
const DRIFT_MS = Math.ceil(TTL_MS * 0.01) + 2;
const BATCH = 500;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export class LeaseError extends Error {}

async function releaseAll(key, token) {
  const results = await Promise.allSettled(nodes.map((node) => node.eval(RELEASE, 1, key, token)));
  const failed = results.filter((r) => r.status === 'rejected').length;
  if (failed > 0) log.warn({ key, failed }, 'lock not released on every node');
}

async function acquireQuorum(key) {
  const token = randomBytes(16).toString('hex');
  const startedAt = performance.now();
  const results = await Promise.allSettled(nodes.map((node) => node.set(key, token, 'PX', TTL_MS, 'NX')));
  const votes = results.filter((r) => r.status === 'fulfilled' && r.value === 'OK').length;
  const validUntil = startedAt + TTL_MS - DRIFT_MS;
  if (votes >= QUORUM && performance.now() < validUntil) return { key, token, validUntil };
  await releaseAll(key, token);
  return null;
}

export async function withQuorumLease(key, work) {
  const lease = await acquireQuorum(key);
  if (!lease) throw new LeaseError(`no quorum for ${key}`);
  const controller = new AbortController();
  const expire = () => controller.abort(new LeaseError(`lease on ${key} ran out`));
  const timer = setTimeout(expire, Math.max(0, lease.validUntil - performance.now()));
  const check = () => {
    if (performance.now() >= lease.validUntil) expire();
    controller.signal.throwIfAborted();
  };
  try {
    return await work({ signal: controller.signal, check });
  } finally {
    clearTimeout(timer);
    await releaseAll(key, lease.token);
  }
}

async function collectResults(labId, day, check) {
  const lines = [];
  let after = 0;
  for (;;) {
    check();
    const { rows } = await pool.query(
      `SELECT id, specimen, loinc, value, unit, reported_at FROM lab_results
        WHERE lab_id = $1 AND reported_on = $2 AND id > $3 ORDER BY id LIMIT $4`,
      [labId, day, after, BATCH],
    );
    for (const row of rows) lines.push(JSON.stringify(row));
    if (rows.length < BATCH) return lines;
    after = rows[rows.length - 1].id;
  }
}

export async function exportLabDay(labId, day) {
  return withQuorumLease(`lab-export:${labId}:${day}`, async ({ signal, check }) => {
    const lines = await collectResults(labId, day, check);
    check();
    try {
      await s3.send(
        new PutObjectCommand({
          Bucket: process.env.EXPORT_BUCKET,
          Key: `labs/${labId}/${day}.ndjson`,
          Body: lines.join('\n'),
          ContentType: 'application/x-ndjson',
          IfNoneMatch: '*',
        }),
        { abortSignal: signal },
      );
    } catch (err) {
      if (err.name !== 'PreconditionFailed') throw err;
      log.info({ labId, day }, 'already exported');
      return { exported: 0 };
    }
    log.info({ labId, day, count: lines.length }, 'exported');
    return { exported: lines.length };
  });
}
