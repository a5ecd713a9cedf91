import { hostname } from 'node:os';
import cron from 'node-cron';
import axios from 'axios';
import nodemailer from 'nodemailer';
import pino from 'pino';
import { createClient } from 'redis';

const log = pino({ name: 'fx-fixing', level: process.env.LOG_LEVEL ?? 'info' });

const redis = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
redis.on('error', (err) => log.error({ err }, 'redis'));
await redis.connect();

const mailer = nodemailer.createTransport(process.env.SMTP_URL);
const SLOT_MS = 15 * 60 * 1000;
const KEEP_SECONDS = 12 * 3600;

/**
 * All three replicas wake up around 16:00. Rounding to the nearest quarter of
 * an hour gives the same slot name on each of them, even when one clock is
 * half a minute off.
 */
function currentSlot(now = Date.now()) {
  return new Date(Math.round(now / SLOT_MS) * SLOT_MS).toISOString();
}

async function claim(slot) {
  const reply = await redis.set(`cron:fx-fixing:${slot}`, hostname(), {
    NX: true,
    EX: KEEP_SECONDS,
  });
  return reply === 'OK';
}

async function fetchRates() {
  const { data } = await axios.get(process.env.RATES_URL, { timeout: 20_000 });
  if (!data?.rates?.EURUSD) throw new Error('incomplete rate table');
  return data.rates;
}

async function sendFixing(slot, rates) {
  const lines = Object.entries(rates).map(([pair, rate]) => `${pair}\t${Number(rate).toFixed(5)}`);
  await mailer.sendMail({
    from: 'treasury@meridian-fx.example',
    to: process.env.FIXING_LIST,
    subject: `Fixing ${slot}`,
    text: lines.join('\n'),
  });
}

async function run() {
  const wokeAt = performance.now();
  const slot = currentSlot();

  let mine;
  try {
    mine = await claim(slot);
  } catch (err) {
    // Without Redis nobody sends; the desk is paged when no fixing is out by 16:10.
    log.error({ err, slot }, 'could not claim slot');
    return;
  }
  if (!mine) {
    log.debug({ slot }, 'slot taken by another replica');
    return;
  }
  if (performance.now() - wokeAt > 60_000) {
    log.fatal({ slot }, 'claim came too late, manual fixing required');
    return;
  }

  try {
    const rates = await fetchRates();
    await sendFixing(slot, rates);
    log.info({ slot, pairs: Object.keys(rates).length }, 'fixing sent');
  } catch (err) {
    // Two fixings with different numbers are worse than none: contracts are
    // settled on them. The slot stays taken and the desk sends by hand.
    log.fatal({ err, slot }, 'fixing failed, manual fixing required');
  }
}

cron.schedule('0 16 * * 1-5', run, { timezone: 'Europe/London' });
log.info('fx fixing scheduled');
