import { randomUUID } from 'node:crypto';
import { Router, type NextFunction, type Request, type Response } from 'express';
import Redis from 'ioredis';
import axios from 'axios';
import { Pool } from 'pg';
import { PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import pino from 'pino';

const log = pino({ name: 'invoice-pdf' });
const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
const s3 = new S3Client({ region: process.env.AWS_REGION ?? 'eu-west-1' });
const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 3_000,
  statement_timeout: 4_000,
  query_timeout: 5_000,
});

const LEASE_MS = 60_000;
const RENDER_BUDGET_MS = 35_000;
const BUCKET = process.env.INVOICE_BUCKET ?? 'invoices-dev';
const RENDERER = process.env.RENDERER_URL ?? 'http://renderer:8080';

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

async function tryLease(key: string): Promise<AsyncDisposable | null> {
  const token = randomUUID();
  const reply = await redis.set(key, token, 'PX', LEASE_MS, 'NX');
  if (reply !== 'OK') return null;
  return {
    async [Symbol.asyncDispose]() {
      try {
        await redis.eval(UNLOCK, 1, key, token);
      } catch (err) {
        log.warn({ err, key }, 'lease not returned, it will expire by itself');
      }
    },
  };
}

async function storedPdf(invoiceId: string): Promise<string | null> {
  const { rows } = await pool.query<{ pdf_key: string | null }>(
    'SELECT pdf_key FROM invoices WHERE id = $1',
    [invoiceId],
  );
  if (rows.length === 0) throw Object.assign(new Error('invoice not found'), { status: 404 });
  return rows[0].pdf_key;
}

export const invoicePdfRouter = Router();

invoicePdfRouter.post('/invoices/:id/pdf', async (req: Request, res: Response, next: NextFunction) => {
  const invoiceId = req.params.id;
  try {
    await using lease = await tryLease(`invoice:${invoiceId}:pdf`);
    if (!lease) {
      res.status(409).set('Retry-After', '5').json({ error: 'pdf_in_progress' });
      return;
    }

    const already = await storedPdf(invoiceId);
    if (already) {
      res.json({ key: already });
      return;
    }

    const signal = AbortSignal.timeout(RENDER_BUDGET_MS);
    const { data } = await axios.post<ArrayBuffer>(
      `${RENDERER}/render/invoice`,
      { invoiceId },
      { responseType: 'arraybuffer', signal },
    );
    const objectKey = `invoices/${invoiceId}/${randomUUID()}.pdf`;
    await s3.send(
      new PutObjectCommand({
        Bucket: BUCKET,
        Key: objectKey,
        Body: Buffer.from(data),
        ContentType: 'application/pdf',
      }),
      { abortSignal: signal },
    );
    await pool.query('UPDATE invoices SET pdf_key = $2 WHERE id = $1 AND pdf_key IS NULL', [
      invoiceId,
      objectKey,
    ]);
    log.info({ invoiceId, objectKey }, 'invoice rendered');
    res.status(201).json({ key: objectKey });
  } catch (err) {
    next(err);
  }
});
