const { randomUUID } = require('node:crypto');
const Redis = require('ioredis');
const axios = require('axios');

const redis = new Redis(process.env.REDIS_URL);
const KEY = 'ocr:inflight';
const LIMIT = 8; // licence allows eight pages at once, over all workers
const LEASE = 120000;

async function take(id) {
  const now = Date.now();
  await redis.zremrangebyscore(KEY, '-inf', now - LEASE);
  const inUse = await redis.zcard(KEY);
  if (inUse >= LIMIT) return false;
  await redis.zadd(KEY, now, id);
  return true;
}

async function give(id) {
  await redis.zrem(KEY, id);
}

async function withSlot(fn, { waitMs = 60000 } = {}) {
  const id = randomUUID();
  const deadline = Date.now() + waitMs;
  while (!(await take(id))) {
    if (Date.now() > deadline) throw new Error('no OCR slot free');
    await new Promise((r) => setTimeout(r, 200 + Math.random() * 300));
  }
  try {
    return await fn();
  } finally {
    await give(id).catch((err) => console.warn('ocr slot', err.message));
  }
}

async function recognisePage(pdfUrl, page) {
  return withSlot(async () => {
    const res = await axios.post(
      `${process.env.OCR_URL}/v1/recognise`,
      { source: pdfUrl, page, languages: ['en', 'de'] },
      { timeout: 45000, signal: AbortSignal.timeout(60000) },
    );
    return res.data.text;
  });
}

async function recognise(pdfUrl, pages) {
  const texts = await Promise.all(Array.from({ length: pages }, (_, i) => recognisePage(pdfUrl, i + 1)));
  return texts.join('\f');
}

module.exports = { recognise, recognisePage };
