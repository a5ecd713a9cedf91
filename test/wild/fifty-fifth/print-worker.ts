import { setTimeout as sleep } from 'node:timers/promises';
import amqp, { type ConsumeMessage } from 'amqplib';
import axios from 'axios';
import pino from 'pino';
import { createClient } from 'redis';
import { v4 as uuid } from 'uuid';

const log = pino({ name: 'print-worker' });

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => log.error({ err }, 'redis'));

const LOCK_MS = 45_000;
const POLL_MS = 500;
const PATIENCE_MS = 120_000;

const UNLOCK = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
  end
  return 0`;

interface PrintJob {
  printerId: string;
  documentUrl: string;
  copies: number;
}

class PrinterBusy extends Error {}

/** Key and lifetime go over in one MULTI, so there is never a key without a TTL. */
async function tryLock(key: string, token: string): Promise<boolean> {
  const [created] = await redis.multi().setNX(key, token).pExpire(key, LOCK_MS).exec();
  return Boolean(created);
}

async function lockPrinter(printerId: string): Promise<{ key: string; token: string }> {
  const key = `printer:${printerId}`;
  const token = uuid();
  const until = Date.now() + PATIENCE_MS;
  for (;;) {
    if (await tryLock(key, token)) return { key, token };
    if (Date.now() > until) throw new PrinterBusy(printerId);
    await sleep(POLL_MS);
  }
}

async function unlockPrinter(lock: { key: string; token: string }): Promise<void> {
  try {
    await redis.eval(UNLOCK, { keys: [lock.key], arguments: [lock.token] });
  } catch (err) {
    log.warn({ err, key: lock.key }, 'printer not unlocked');
  }
}

// The thermal printers in the shops interleave pages of two open sessions.
async function print(job: PrintJob): Promise<void> {
  const lock = await lockPrinter(job.printerId);
  try {
    await axios.post(
      `${process.env.PRINT_GATEWAY}/printers/${job.printerId}/print`,
      { url: job.documentUrl, copies: job.copies },
      { timeout: 30_000, signal: AbortSignal.timeout(30_000) },
    );
  } finally {
    await unlockPrinter(lock);
  }
}

async function main(): Promise<void> {
  await redis.connect();
  const conn = await amqp.connect(process.env.AMQP_URL!);
  const channel = await conn.createChannel();
  await channel.prefetch(10);
  await channel.assertQueue('print-jobs', { durable: true });

  await channel.consume('print-jobs', async (msg: ConsumeMessage | null) => {
    if (!msg) return;
    try {
      await print(JSON.parse(msg.content.toString()) as PrintJob);
      channel.ack(msg);
    } catch (err) {
      const busy = err instanceof PrinterBusy;
      log[busy ? 'info' : 'error']({ err, tag: msg.fields.deliveryTag }, 'print job not done');
      // Busy: back into the queue. Anything else goes to the dead letters and a shop assistant is told.
      channel.nack(msg, false, busy);
    }
  });
  log.info('print worker ready');
}

main().catch((err) => {
  log.fatal({ err }, 'print worker died');
  process.exit(1);
});
