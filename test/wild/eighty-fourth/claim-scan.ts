import Fastify from 'fastify';
import Redis from 'ioredis';
import { Semaphore } from 'redis-semaphore';
import { S3Client, GetObjectCommand } from '@aws-sdk/client-s3';

const redis = new Redis(process.env.REDIS_URL!);
const s3 = new S3Client({});
const app = Fastify({ logger: true });

// our OCR licence: N documents at the same time over all pods, more get us blocked for an hour
const ocrSlots = new Semaphore(redis, 'claims:ocr', Number(process.env.OCR_SLOTS ?? 4), {
  acquireTimeout: 15_000,
  retryInterval: 100,
  lockTimeout: 30_000,
  refreshInterval: 8_000,
  onLockLost: (e) => app.log.error(e, 'ocr slot lost'),
});

async function ocr(pdf: Uint8Array): Promise<string> {
  const res = await fetch(`${process.env.OCR_URL}/v1/read`, {
    method: 'POST',
    headers: { authorization: `Bearer ${process.env.OCR_KEY}`, 'content-type': 'application/pdf' },
    body: pdf,
    signal: AbortSignal.timeout(25_000),
  });
  if (!res.ok) throw new Error(`ocr ${res.status}`);
  return res.text();
}

app.post<{ Params: { claim: string; doc: string } }>('/claims/:claim/docs/:doc/scan', async (req, reply) => {
  const { claim, doc } = req.params;
  const obj = await s3.send(
    new GetObjectCommand({ Bucket: process.env.CLAIMS_BUCKET, Key: `${claim}/${doc}.pdf` }),
  );
  const pdf = await obj.Body!.transformToByteArray();

  if (!(await ocrSlots.tryAcquire())) {
    return reply.code(429).header('retry-after', '10').send({ error: 'ocr is busy' });
  }
  try {
    const text = await ocr(pdf);
    return { claim, doc, text };
  } finally {
    await ocrSlots.release();
  }
});

app.addHook('onClose', async () => {
  redis.disconnect();
});

app.listen({ port: 8080, host: '0.0.0.0' }).catch((e) => {
  app.log.error(e);
  process.exit(1);
});
