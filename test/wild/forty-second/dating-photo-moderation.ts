import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { CopyObjectCommand, DeleteObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { Pool } from 'pg';
import { createClient } from 'redis';

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => console.error('redis', err));
const ready = redis.connect();

const s3 = new S3Client({});
const pool = new Pool({ connectionTimeoutMillis: 2_000, statement_timeout: 3_000, query_timeout: 3_000 });

const LEASE_MS = 45_000;
/** Nothing new is started in the last ten seconds; a single step is far shorter than that. */
const RESERVE_MS = 10_000;

const GIVE_BACK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

class MemberLease implements AsyncDisposable {
  private readonly ac = new AbortController();
  private readonly timer: NodeJS.Timeout;

  private constructor(
    private readonly key: string,
    private readonly token: string,
    private readonly deadline: number,
  ) {
    this.timer = setTimeout(() => this.ac.abort(new Error(`lease on ${key} used up`)), deadline - performance.now());
  }

  static async take(memberId: string): Promise<MemberLease | null> {
    await ready;
    const key = `member:${memberId}:photos`;
    const token = randomUUID();
    const asked = performance.now();
    const reply = await redis.set(key, token, { NX: true, PX: LEASE_MS });
    return reply === 'OK' ? new MemberLease(key, token, asked + LEASE_MS - RESERVE_MS) : null;
  }

  /** Call right before every step that changes something. */
  step(): AbortSignal {
    this.ac.signal.throwIfAborted();
    if (performance.now() >= this.deadline) throw new Error(`lease on ${this.key} used up`);
    return this.ac.signal;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearTimeout(this.timer);
    try {
      await redis.eval(GIVE_BACK, { keys: [this.key], arguments: [this.token] });
    } catch (err) {
      console.warn('lease will expire by itself', this.key, err);
    }
  }
}

export async function approvePhotos(memberId: string): Promise<number | 'busy'> {
  await using lease = await MemberLease.take(memberId);
  if (!lease) return 'busy';

  const { rows } = await pool.query(
    "SELECT id, object_key FROM photos WHERE member_id = $1 AND state = 'approved-pending' ORDER BY id LIMIT 20",
    [memberId],
  );

  let moved = 0;
  for (const photo of rows) {
    const target = `public/${memberId}/${photo.id}.jpg`;
    await s3.send(
      new CopyObjectCommand({
        Bucket: process.env.PHOTO_BUCKET,
        CopySource: `${process.env.PHOTO_BUCKET}/${photo.object_key}`,
        Key: target,
      }),
      { abortSignal: lease.step() },
    );
    lease.step();
    await pool.query("UPDATE photos SET state = 'public', object_key = $2, position = (SELECT coalesce(max(position), 0) + 1 FROM photos WHERE member_id = $3) WHERE id = $1", [
      photo.id,
      target,
      memberId,
    ]);
    await s3.send(new DeleteObjectCommand({ Bucket: process.env.PHOTO_BUCKET, Key: photo.object_key }), {
      abortSignal: lease.step(),
    });
    moved += 1;
  }
  return moved;
}
