import { randomUUID } from 'node:crypto';
import cron from 'node-cron';
import nodemailer from 'nodemailer';
import { createClient } from 'redis';

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => console.error('redis', err));

const mail = nodemailer.createTransport({
  host: process.env.SMTP_HOST,
  port: 587,
  connectionTimeout: 10_000,
  socketTimeout: 30_000,
  auth: { user: process.env.SMTP_USER, pass: process.env.SMTP_PASS },
});

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

/** Runs work unless another instance is at it. Returns whether it ran. */
async function withLock(name, ttlMs, work) {
  const key = `lock:${name}`;
  const token = randomUUID();
  const reply = await redis.set(key, token, { nx: true, px: ttlMs });
  if (reply !== 'OK') return false;
  try {
    await work();
    return true;
  } finally {
    await redis
      .eval(RELEASE, { keys: [key], arguments: [token] })
      .catch((err) => console.warn('release of %s: %s', key, err.message));
  }
}

async function loadPrices(day) {
  const res = await fetch(`${process.env.MARKET_URL}/wholesale/${day}`, { signal: AbortSignal.timeout(20_000) });
  if (!res.ok) throw new Error(`market answered ${res.status}`);
  return res.json();
}

function render(day, prices) {
  const rows = prices.map((p) => `${p.produce.padEnd(24)} ${(p.centsPerKg / 100).toFixed(2).padStart(7)} EUR/kg`);
  return [`Wholesale prices of ${day}`, '', ...rows, ''].join('\n');
}

async function sendPriceList() {
  const day = new Date().toISOString().slice(0, 10);
  if ((await redis.get('price-list:last-day')) === day) return;

  const prices = await loadPrices(day);
  await mail.sendMail({
    from: 'prices@greengrocers.example',
    to: 'price-list@lists.greengrocers.example',
    subject: `Wholesale prices ${day}`,
    text: render(day, prices),
  });
  await redis.set('price-list:last-day', day);
  console.info('price list of %s sent', day);
}

// Every pod runs this; the later ones find the day already sent.
async function tick() {
  try {
    const ran = await withLock('price-list', 5 * 60_000, sendPriceList);
    if (!ran) console.info('price list: another pod is at it');
  } catch (err) {
    console.error('price list', err);
  }
}

await redis.connect();
cron.schedule('*/10 4-6 * * *', tick, { timezone: 'UTC' });
