import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import Redis from 'ioredis';
import axios from 'axios';
import pino from 'pino';
import { Pool } from 'pg';
import { S3Client, PutObjectCommand } from '@aws-sdk/client-s3';

const log = pino({ name: 'contract-pdf' });
const redis = new Redis(process.env.REDIS_URL!);
const pool = new Pool({ connectionString: process.env.DATABASE_URL });
const s3 = new S3Client({});

const TTL = 30_000;
const MARGIN = 8_000;

const RENEW = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("pexpire", KEYS[1], ARGV[2])
end
return 0`;

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

async function withLease<T>(key: string, fn: (signal: AbortSignal) => Promise<T>): Promise<T | undefined> {
  const token = randomUUID();
  const asked = performance.now();
  const ok = await redis.set(key, token, 'PX', TTL, 'NX');
  if (ok !== 'OK') return undefined;

  const ac = new AbortController();
  let validUntil = asked + TTL;

  // the check comes before the call, so a hanging Redis does not keep us going
  const timer = setInterval(async () => {
    const at = performance.now();
    if (at > validUntil - MARGIN) {
      ac.abort(new Error(`lease ${key} ran out`));
      return;
    }
    try {
      const n = await redis.eval(RENEW, 1, key, token, TTL);
      if (n === 1) validUntil = Math.max(validUntil, at + TTL);
      else ac.abort(new Error(`lease ${key} lost`));
    } catch (err) {
      log.warn({ err, key }, 'renew failed, trying again');
    }
  }, 3_000);

  try {
    if (performance.now() > validUntil - MARGIN) throw new Error(`Redis too slow for ${key}`);
    return await fn(ac.signal);
  } finally {
    clearInterval(timer);
    await redis.eval(RELEASE, 1, key, token).catch((err) => log.warn({ err, key }, 'release failed'));
  }
}

/** Gotenberg is slow (and we pay per render), so one render per contract at a time. */
export async function renderContract(contractId: string): Promise<string | undefined> {
  return withLease(`contract:${contractId}:render`, async (signal) => {
    const { rows } = await pool.query('select version, html, pdf_version, pdf_key from contracts where id = $1', [contractId]);
    const c = rows[0];
    if (!c) throw new Error(`no contract ${contractId}`);
    if (c.pdf_version === c.version) return c.pdf_key as string;

    const form = new FormData();
    form.append('files', new Blob([c.html], { type: 'text/html' }), 'index.html');
    const pdf = await axios.post(`${process.env.GOTENBERG_URL}/forms/chromium/convert/html`, form, {
      responseType: 'arraybuffer',
      signal,
    });

    signal.throwIfAborted();
    const objectKey = `contracts/${contractId}/v${c.version}.pdf`;
    await s3.send(
      new PutObjectCommand({ Bucket: process.env.PDF_BUCKET, Key: objectKey, Body: Buffer.from(pdf.data) }),
      { abortSignal: signal },
    );

    signal.throwIfAborted();
    await pool.query('update contracts set pdf_key = $1, pdf_version = $2 where id = $3 and version = $2', [
      objectKey,
      c.version,
      contractId,
    ]);
    return objectKey;
  });
}
