import { S3Client, PutObjectCommand } from '@aws-sdk/client-s3';
import { createClient, type RedisClientType } from 'redis';
import { Pool } from 'pg';
import { nanoid } from 'nanoid';
import pino from 'pino';

const log = pino({ name: 'report-export' });
const s3 = new S3Client({ maxAttempts: 1 });
const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 3_000,
  statement_timeout: 20_000,
  query_timeout: 22_000,
});

const RELEASE = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', ARGV[2], '1')
return 1`;

export class NotifiedLock {
  private constructor(
    private readonly redis: RedisClientType,
    private readonly sub: RedisClientType,
    private readonly ttlMs: number,
  ) {}

  static async connect(url: string, ttlMs = 90_000): Promise<NotifiedLock> {
    const redis: RedisClientType = createClient({ url });
    redis.on('error', (err) => log.error({ err }, 'redis'));
    await redis.connect();
    const sub = redis.duplicate();
    sub.on('error', (err) => log.error({ err }, 'redis subscriber'));
    await sub.connect();
    return new NotifiedLock(redis, sub, ttlMs);
  }

  async acquire(key: string, patienceMs: number): Promise<string> {
    const token = nanoid();
    const deadline = Date.now() + patienceMs;
    while (Date.now() < deadline) {
      const reply = await this.redis.set(key, token, { NX: true, PX: this.ttlMs });
      if (reply === 'OK') return token;

      // most exports take seconds, so a signal usually beats the next poll
      if (await this.released(key, 2_000)) {
        await this.redis.set(key, token, { PX: this.ttlMs });
        return token;
      }
    }
    throw new Error(`gave up waiting for ${key}`);
  }

  async release(key: string, token: string): Promise<void> {
    const freed = await this.redis.eval(RELEASE, { keys: [key], arguments: [token, `${key}:released`] });
    if (freed !== 1) log.warn({ key }, 'lock had changed hands');
  }

  private released(key: string, withinMs: number): Promise<boolean> {
    const channel = `${key}:released`;
    return new Promise((resolve, reject) => {
      const onMessage = () => finish(true);
      const timer = setTimeout(() => finish(false), withinMs);
      const finish = (signalled: boolean) => {
        clearTimeout(timer);
        this.sub.unsubscribe(channel, onMessage).catch((err) => log.warn({ err, channel }, 'unsubscribe'));
        resolve(signalled);
      };
      this.sub.subscribe(channel, onMessage).catch((err) => {
        clearTimeout(timer);
        reject(err);
      });
    });
  }
}

/** The warehouse gives each tenant one heavy query at a time. */
export async function exportReport(lock: NotifiedLock, tenant: string, month: string): Promise<string> {
  const key = `export:${tenant}`;
  const objectKey = `exports/${tenant}/${month}-${nanoid(8)}.csv`;
  const token = await lock.acquire(key, 60_000);
  try {
    const { rows } = await pool.query(
      'select booked_on, account, cents from ledger_month($1, $2) order by booked_on, account',
      [tenant, month],
    );
    const csv = ['date;account;cents', ...rows.map((r) => `${r.booked_on};${r.account};${r.cents}`)].join('\n');
    await s3.send(
      new PutObjectCommand({ Bucket: process.env.EXPORT_BUCKET, Key: objectKey, Body: csv, ContentType: 'text/csv' }),
      { abortSignal: AbortSignal.timeout(20_000) },
    );
    log.info({ tenant, month, rows: rows.length }, 'exported');
    return objectKey;
  } finally {
    await lock.release(key, token).catch((err) => log.warn({ err, key }, 'release failed'));
  }
}
