// Worker that makes the product thumbnails.
// Every product has a manifest.json on S3 with all its images, so two jobs for the same
// product can't run together (the second one overwrites the manifest of the first one).
const { Worker } = require('bullmq');
const Redis = require('ioredis');
const sharp = require('sharp');
const { randomUUID } = require('crypto');
const { S3Client, GetObjectCommand, PutObjectCommand } = require('@aws-sdk/client-s3');

const connection = new Redis(process.env.REDIS_URL, { maxRetriesPerRequest: null });
const s3 = new S3Client({ region: 'eu-west-1', requestHandler: { requestTimeout: 10000 }, maxAttempts: 1 });
const Bucket = process.env.IMAGES_BUCKET;

// 2 minutes is more than enough, a job is 10 - 15 seconds
const LOCK_TTL = 120;

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`;

async function readManifest(productId) {
  try {
    const obj = await s3.send(new GetObjectCommand({ Bucket, Key: `${productId}/manifest.json` }));
    return JSON.parse(await obj.Body.transformToString());
  } catch (err) {
    if (err.name === 'NoSuchKey') return { images: [] };
    throw err;
  }
}

async function put(Key, Body, ContentType) {
  await s3.send(new PutObjectCommand({ Bucket, Key, Body, ContentType }));
}

async function processImage({ productId, imageId }) {
  const manifest = await readManifest(productId);
  const original = await s3.send(new GetObjectCommand({ Bucket, Key: `${productId}/${imageId}.orig` }));
  const input = Buffer.from(await original.Body.transformToByteArray());

  for (const width of [200, 600, 1200]) {
    const out = await sharp(input).timeout({ seconds: 10 }).resize({ width }).webp().toBuffer();
    await put(`${productId}/${imageId}-${width}.webp`, out, 'image/webp');
  }

  if (!manifest.images.includes(imageId)) manifest.images.push(imageId);
  await put(`${productId}/manifest.json`, JSON.stringify(manifest), 'application/json');
}

const worker = new Worker(
  'product-images',
  async (job) => {
    const key = `lock:product-images:${job.data.productId}`;
    const token = randomUUID();

    const ok = await connection.set(key, token, 'PX', LOCK_TTL, 'NX');
    if (ok !== 'OK') {
      // jobs have attempts: 20 with backoff, so it comes back later
      throw new Error(`product ${job.data.productId} is busy`);
    }

    try {
      await processImage(job.data);
    } finally {
      await connection.eval(UNLOCK, 1, key, token);
    }
  },
  { connection, concurrency: 4 }
);

worker.on('failed', (job, err) => console.log(`job ${job && job.id} failed: ${err.message}`));
