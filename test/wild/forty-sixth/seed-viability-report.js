import { randomUUID } from 'node:crypto';
import { S3Client, PutObjectCommand, HeadObjectCommand } from '@aws-sdk/client-s3';
import { Redis } from '@upstash/redis';
import dayjs from 'dayjs';
import pg from 'pg';

const s3 = new S3Client({});
const redis = Redis.fromEnv();
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 1 });

const BUCKET = process.env.REPORT_BUCKET;
const LOCK_SECONDS = 600; // the function's own limit is 300 s

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end
return 0`;

async function exists(key) {
  try {
    await s3.send(new HeadObjectCommand({ Bucket: BUCKET, Key: key }));
    return true;
  } catch (err) {
    if (err.name === 'NotFound') return false;
    throw err;
  }
}

/*
 * Two functions computing the same report would only waste money: the object
 * is written with If-None-Match, so the first one stands. Therefore we go on
 * without the lock when Redis cannot be reached.
 */
async function tryLock(name, token) {
  try {
    const reply = await redis.set(name, token, { nx: true, ex: LOCK_SECONDS });
    return reply === 'OK' ? 'held' : 'busy';
  } catch (err) {
    console.warn('lock service unavailable, computing anyway', err);
    return 'unavailable';
  }
}

async function computeReport(month) {
  const { rows } = await pool.query(
    `SELECT a.species, count(*) AS tests, avg(t.germinated::float / t.sown) AS rate
       FROM germination_tests t JOIN accessions a ON a.id = t.accession_id
      WHERE t.closed_at >= $1::date AND t.closed_at < $1::date + interval '1 month'
      GROUP BY a.species ORDER BY a.species`,
    [`${month}-01`],
  );
  return rows.map((r) => ({ ...r, retest: r.rate < 0.85 }));
}

// EventBridge: every 15 minutes, last month's report if it is not there yet.
export async function handler() {
  const month = dayjs().subtract(1, 'month').format('YYYY-MM');
  const key = `viability/${month}.json`;
  if (await exists(key)) return { month, status: 'present' };

  const token = randomUUID();
  const lockName = `viability-report:${month}`;
  const state = await tryLock(lockName, token);
  if (state === 'busy') return { month, status: 'in progress elsewhere' };

  try {
    const species = await computeReport(month);
    await s3.send(
      new PutObjectCommand({
        Bucket: BUCKET,
        Key: key,
        Body: JSON.stringify({ month, species }),
        ContentType: 'application/json',
        IfNoneMatch: '*',
      }),
    );
    return { month, status: 'written', species: species.length };
  } catch (err) {
    if (err.name === 'PreconditionFailed') return { month, status: 'present' };
    throw err;
  } finally {
    if (state === 'held') {
      await redis.eval(RELEASE, [lockName], [token]).catch((err) => console.warn('release', err));
    }
  }
}
