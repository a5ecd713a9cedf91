// Tariff sheets are JSON documents in S3, one per grid zone. Product managers
// change single prices; the website and the billing run read the whole sheet.
import { randomUUID } from 'node:crypto';
import { GetObjectCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { createClient } from 'redis';

const s3 = new S3Client({});
const Bucket = process.env.TARIFF_BUCKET!;
const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => console.error('redis', err));
await redis.connect();

const TTL_MS = 9_000;
const MARGIN_MS = 1_500;

const EXTEND = `if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end`;
const DROP = `if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1]) else return 0 end`;

class Lease implements AsyncDisposable {
  private readonly lost = new AbortController();
  private readonly beat: NodeJS.Timeout;
  private deadline?: NodeJS.Timeout;
  private disposed = false;

  private constructor(private readonly key: string, private readonly token: string, takenAt: number) {
    this.arm(takenAt);
    this.beat = setInterval(() => void this.extend(), TTL_MS / 3);
  }

  static async take(key: string): Promise<Lease> {
    const token = randomUUID();
    const sentAt = performance.now();
    const reply = await redis.set(key, token, { NX: true, PX: TTL_MS });
    if (reply !== 'OK') throw new Error(`${key} is being edited by someone else`);
    return new Lease(key, token, sentAt);
  }

  get signal(): AbortSignal {
    return this.lost.signal;
  }

  private arm(from: number): void {
    clearTimeout(this.deadline);
    const left = from + TTL_MS - MARGIN_MS - performance.now();
    this.deadline = setTimeout(() => this.lost.abort(new Error(`${this.key}: lease ran out`)), Math.max(left, 0));
  }

  private async extend(): Promise<void> {
    const sentAt = performance.now();
    try {
      const kept = await redis.eval(EXTEND, { keys: [this.key], arguments: [this.token, String(TTL_MS)] });
      if (this.disposed) return;
      if (kept === 1) this.arm(sentAt);
      else this.lost.abort(new Error(`${this.key}: lease lost`));
    } catch (err) {
      console.warn('tariff lease: no answer to the heartbeat', err);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.disposed = true;
    clearInterval(this.beat);
    clearTimeout(this.deadline);
    try {
      await redis.eval(DROP, { keys: [this.key], arguments: [this.token] });
    } catch (err) {
      console.warn('tariff lease: could not drop', this.key, err);
    }
  }
}

interface Sheet {
  zone: string;
  revision: number;
  centsPerKwh: Record<string, number>;
}

async function checkWithRegulator(sheet: Sheet, signal: AbortSignal): Promise<void> {
  const res = await fetch(`${process.env.REGULATOR_URL}/precheck`, {
    method: 'POST',
    body: JSON.stringify(sheet),
    headers: { 'content-type': 'application/json' },
    signal,
  });
  if (!res.ok) throw new Error(`regulator precheck refused: ${res.status}`);
}

export async function setPrice(zone: string, product: string, cents: number): Promise<Sheet> {
  await using lease = await Lease.take(`tariff-sheet:${zone}`);
  const { signal } = lease;
  const Key = `zones/${zone}.json`;

  const current = await s3.send(new GetObjectCommand({ Bucket, Key }), { abortSignal: signal });
  const sheet: Sheet = JSON.parse(await current.Body!.transformToString());
  sheet.centsPerKwh[product] = cents;
  sheet.revision += 1;

  await checkWithRegulator(sheet, signal);
  signal.throwIfAborted();
  await s3.send(
    new PutObjectCommand({ Bucket, Key, Body: JSON.stringify(sheet), ContentType: 'application/json', IfMatch: current.ETag }),
    { abortSignal: signal },
  );
  return sheet;
}
