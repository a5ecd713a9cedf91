import express from 'express';
import Redis from 'ioredis';
import puppeteer from 'puppeteer-core';
import { nanoid } from 'nanoid';
import winston from 'winston';

const logger = winston.createLogger({ transports: [new winston.transports.Console()] });
const redis = new Redis(process.env.REDIS_URL);

// The render farm's contract: four sessions per tenant, a fifth gets the whole tenant suspended.
const MAX_SESSIONS = 4;
const LEASE_MS = 180_000;
const RENDER_TIMEOUT_MS = 30_000;

async function redisNow() {
  const [sec, usec] = await redis.time();
  return Number(sec) * 1000 + Math.floor(Number(usec) / 1000);
}

async function takeSlot(tenantId) {
  const key = `render:sessions:${tenantId}`;
  const now = await redisNow();

  // drop the slots of crashed renderers and count the rest in one transaction
  const replies = await redis.multi().zremrangebyscore(key, '-inf', now).zcard(key).exec();
  const [err, used] = replies[1];
  if (err) throw err;
  if (used >= MAX_SESSIONS) return null;

  const id = nanoid();
  await redis.multi().zadd(key, now + LEASE_MS, id).pexpire(key, LEASE_MS * 2).exec();
  return { key, id };
}

async function waitForSlot(tenantId, waitMs = 15_000) {
  const until = Date.now() + waitMs;
  for (;;) {
    const slot = await takeSlot(tenantId);
    if (slot) return slot;
    if (Date.now() > until) return null;
    await new Promise((resolve) => setTimeout(resolve, 200 + Math.random() * 300));
  }
}

async function freeSlot(slot) {
  try {
    await redis.zrem(slot.key, slot.id);
  } catch (err) {
    logger.warn('slot will be freed by its lease', { key: slot.key, message: err.message });
  }
}

async function render(tenantId, html) {
  const browser = await puppeteer.connect({
    browserWSEndpoint: `${process.env.RENDER_FARM_URL}?tenant=${encodeURIComponent(tenantId)}&timeout=120000`,
    protocolTimeout: RENDER_TIMEOUT_MS,
  });
  try {
    const page = await browser.newPage();
    await page.setContent(html, { waitUntil: 'load', timeout: RENDER_TIMEOUT_MS });
    return await page.pdf({ format: 'A4', printBackground: true, timeout: RENDER_TIMEOUT_MS });
  } finally {
    await browser.close().catch(() => {});
  }
}

const app = express();
app.use(express.json({ limit: '4mb' }));

app.post('/tenants/:tenantId/pdf', async (req, res, next) => {
  let slot;
  try {
    slot = await waitForSlot(req.params.tenantId);
    if (!slot) return res.status(429).set('Retry-After', '10').json({ error: 'all render sessions are in use' });
    const pdf = await render(req.params.tenantId, req.body.html);
    res.type('application/pdf').send(Buffer.from(pdf));
  } catch (err) {
    next(err);
  } finally {
    if (slot) await freeSlot(slot);
  }
});

app.listen(process.env.PORT || 4000, () => logger.info('pdf service listening'));
