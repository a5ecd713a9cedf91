'use strict';

const Redis = require('ioredis');
const Redlock = require('redlock4');
const { S3Client, PutObjectCommand } = require('@aws-sdk/client-s3');

const s3 = new S3Client({});
const redlock = new Redlock(
  process.env.LOCK_REDIS_URLS.split(',').map((url) => new Redis(url)),
  { driftFactor: 0.01, retryCount: 0 }
);
redlock.on('clientError', (err) => console.error('lock node:', err.message));

const LOCK_MS = 3 * 60 * 1000;
const WORK_MS = 90 * 1000;

async function collect(tenantId, signal) {
  const lines = [];
  let cursor = '';
  do {
    const url = new URL(`/internal/tenants/${tenantId}/contacts`, process.env.CRM_URL);
    url.searchParams.set('after', cursor);
    const res = await fetch(url, { signal });
    if (!res.ok) throw new Error(`CRM answered ${res.status}`);
    const page = await res.json();
    for (const item of page.items) lines.push(JSON.stringify(item));
    cursor = page.next;
  } while (cursor);
  return lines.join('\n');
}

exports.handler = async function handler(event) {
  const { tenantId } = event.detail;
  let lock;
  try {
    lock = await redlock.lock(`export:contacts:${tenantId}`, LOCK_MS);
  } catch (err) {
    if (err.name === 'LockError') return { status: 'busy', tenantId };
    throw err;
  }

  const signal = AbortSignal.timeout(WORK_MS);
  try {
    const body = await collect(tenantId, signal);
    signal.throwIfAborted();
    await s3.send(
      new PutObjectCommand({
        Bucket: process.env.EXPORT_BUCKET,
        Key: `contacts/${tenantId}/latest.ndjson`,
        Body: body,
        ContentType: 'application/x-ndjson',
      }),
      { abortSignal: signal }
    );
    return { status: 'done', tenantId, bytes: Buffer.byteLength(body) };
  } finally {
    await lock.unlock().catch((err) => console.warn('unlock failed, it will expire:', err.message));
  }
};
