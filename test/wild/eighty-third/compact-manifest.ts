import Redis from 'ioredis';
import Redlock, { ResourceLockedError } from 'redlock5';
import { S3Client, GetObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3';

const nodes = (process.env.LOCK_NODES ?? '').split(',').map(
  (url) => new Redis(url, { commandTimeout: 1_500, maxRetriesPerRequest: 1 }),
);
if (nodes.length < 3) throw new Error('LOCK_NODES must list at least three independent servers');

const redlock = new Redlock(nodes, { retryCount: 0, driftFactor: 0.01, automaticExtensionThreshold: 8_000 });
redlock.on('error', (err) => {
  if (!(err instanceof ResourceLockedError)) console.error('redlock', err);
});

const s3 = new S3Client({});
const Bucket = process.env.LAKE_BUCKET!;

interface Part { key: string; rows: number; bytes: number }
interface Manifest { version: number; parts: Part[] }

async function load(Key: string): Promise<{ body: Manifest; etag: string }> {
  const res = await s3.send(new GetObjectCommand({ Bucket, Key }));
  return { body: JSON.parse(await res.Body!.transformToString()), etag: res.ETag! };
}

export type Merge = (parts: Part[], target: string, signal: { aborted: boolean }) => Promise<Part>;

export async function compactDay(table: string, day: string, merge: Merge): Promise<'done' | 'small'> {
  return redlock.using([`compact:${table}:${day}`], 30_000, async (signal) => {
    const Key = `${table}/${day}/manifest.json`;
    const { body, etag } = await load(Key);
    const small = body.parts.filter((p) => p.bytes < 32 * 1024 * 1024);
    if (small.length < 8) return 'small';

    const target = `${table}/${day}/c-${body.version + 1}-${crypto.randomUUID()}.parquet`;
    const merged = await merge(small, target, signal);
    if (signal.aborted) throw signal.error ?? new Error('compaction lock lost');

    const gone = new Set(small.map((p) => p.key));
    const next: Manifest = {
      version: body.version + 1,
      parts: [...body.parts.filter((p) => !gone.has(p.key)), merged],
    };
    // old parts are removed by the bucket's vacuum once no manifest names them
    await s3.send(
      new PutObjectCommand({
        Bucket,
        Key,
        Body: JSON.stringify(next),
        ContentType: 'application/json',
        IfMatch: etag,
      }),
    );
    return 'done';
  });
}
