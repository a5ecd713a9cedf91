import { randomUUID } from 'node:crypto';
import { PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import Redis from 'ioredis';
import { pool } from '../db/index.mjs';
import { collectUserData } from '../lib/collect-user-data.mjs';
import { sendExportReady } from '../lib/mail.mjs';
import { logger } from '../config/logger.mjs';

// Function timeout is 5 minutes.
const LOCK_TTL_MS = 6 * 60_000;

const s3 = new S3Client({});
const redis = new Redis(process.env.REDIS_URL, { commandTimeout: 2_000, maxRetriesPerRequest: 2 });
redis.on('error', (err) => logger.warn({ err }, 'redis error'));

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

async function buildExport(requestId) {
  const { rows } = await pool.query('SELECT user_id, status FROM export_requests WHERE id = $1', [requestId]);
  const request = rows[0];
  if (!request || request.status === 'delivered') return;

  const archive = await collectUserData(request.user_id);
  const key = `exports/${request.user_id}/${randomUUID()}.zip`;
  await s3.send(
    new PutObjectCommand({
      Bucket: process.env.EXPORT_BUCKET,
      Key: key,
      Body: archive,
      ContentType: 'application/zip',
      ServerSideEncryption: 'aws:kms',
    }),
  );

  await sendExportReady(request.user_id, key);
  await pool.query("UPDATE export_requests SET status = 'delivered', object_key = $2, delivered_at = now() WHERE id = $1", [
    requestId,
    key,
  ]);
}

async function processRecord(record) {
  const { requestId } = JSON.parse(record.body);
  const lockKey = `lock:gdpr-export:${requestId}`;
  const token = randomUUID();

  const acquired = await redis.set(lockKey, token, 'PX', LOCK_TTL_MS, 'NX');
  if (acquired === 0) {
    throw new Error(`export ${requestId} is being built by another invocation`);
  }

  try {
    await buildExport(requestId);
  } finally {
    try {
      await redis.eval(RELEASE, 1, lockKey, token);
    } catch (err) {
      logger.warn({ err, lockKey }, 'export lock release failed');
    }
  }
}

export async function handler(event) {
  const batchItemFailures = [];
  for (const record of event.Records) {
    try {
      await processRecord(record);
    } catch (err) {
      logger.error({ err, messageId: record.messageId }, 'export record failed');
      batchItemFailures.push({ itemIdentifier: record.messageId });
    }
  }
  return { batchItemFailures };
}
