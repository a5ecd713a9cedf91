'use strict';

const axios = require('axios');
const Redis = require('ioredis');
const Redlock = require('redlock4');
const { Worker } = require('bullmq');
const { PrismaClient } = require('@prisma/client');
const ms = require('ms');
const pino = require('pino');

const log = pino({ name: 'payouts' });
const prisma = new PrismaClient();

const lockNodes = process.env.LOCK_NODES.split(',').map((url) => new Redis(url));
const redlock = new Redlock(lockNodes, { retryCount: 3, retryDelay: 400, driftFactor: 0.01 });
redlock.on('clientError', (err) => log.warn({ err }, 'lock node'));

const LOCK_TTL = ms('2m');
const RUN_LIMIT = ms('90s');

const bank = axios.create({
  baseURL: process.env.BANK_API_URL,
  timeout: ms('15s'),
  headers: { authorization: `Bearer ${process.env.BANK_API_TOKEN}` },
});

async function payMerchant(merchantId) {
  const due = await prisma.payout.findMany({
    where: { merchantId, state: 'DUE' },
    orderBy: { createdAt: 'asc' },
    take: 100,
  });
  let paid = 0;
  for (const payout of due) {
    const { data } = await bank.post('/credit-transfers', {
      iban: payout.iban,
      amount: payout.cents,
      currency: payout.currency,
      purpose: `Payout ${payout.reference}`,
    });
    await prisma.payout.update({
      where: { id: payout.id },
      data: { state: 'PAID', bankId: data.transferId, paidAt: new Date() },
    });
    paid += 1;
  }
  return { merchantId, paid };
}

function limit(promise, millis) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not finished after ${millis} ms`)), millis);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// Jobs come from the nightly planner and from the "pay out now" button of the
// merchant portal, with three attempts and a back-off of a few seconds.
const worker = new Worker(
  'payouts',
  async (job) => {
    const { merchantId } = job.data;
    const lock = await redlock.lock(`payouts:merchant:${merchantId}`, LOCK_TTL);
    try {
      const result = await limit(payMerchant(merchantId), RUN_LIMIT);
      log.info(result, 'merchant paid');
      return result;
    } finally {
      await lock.unlock().catch((err) => log.warn({ err, merchantId }, 'unlock failed'));
    }
  },
  {
    connection: new Redis(process.env.QUEUE_REDIS_URL, { maxRetriesPerRequest: null }),
    concurrency: 5,
  },
);

worker.on('failed', (job, err) => log.error({ job: job && job.id, err }, 'payout job failed'));

process.once('SIGTERM', async () => {
  await worker.close();
  await Promise.allSettled([prisma.$disconnect(), ...lockNodes.map((n) => n.quit())]);
});
