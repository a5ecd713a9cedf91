'use strict';

const { Kafka } = require('kafkajs');
const Redis = require('ioredis');
const Redlock = require('redlock4');
const bank = require('./bank-client');
const db = require('../db');
const log = require('../logger');

const redis = new Redis(process.env.REDIS_URL);
const redlock = new Redlock([redis], {
  driftFactor: 0.01,
  retryCount: 30,
  retryDelay: 300,
  retryJitter: 200,
});
redlock.on('clientError', (err) => log.warn({ err }, 'redlock client error'));

const kafka = new Kafka({
  clientId: 'bank-sync',
  brokers: process.env.KAFKA_BROKERS.split(','),
});

const consumer = kafka.consumer({ groupId: 'bank-sync', sessionTimeout: 60000 });

const LOCK_TTL = 5000;

/**
 * Imports all transactions since the last cursor and moves the balance along.
 * First sync of a business account can be some 100 pages, the bank allows two
 * requests per second.
 */
async function syncAccount(accountId, heartbeat) {
  const account = await db.accounts.findById(accountId);
  let cursor = account.cursor;
  let balance = account.balanceCents;
  let imported = 0;

  for (;;) {
    const page = await bank.listTransactions(account.bankRef, { after: cursor, limit: 100 });
    for (const tx of page.items) {
      await db.transactions.insert({
        accountId,
        bookedAt: tx.bookedAt,
        amountCents: tx.amount,
        text: tx.remittanceInfo,
      });
      balance += tx.amount;
      imported++;
    }
    cursor = page.cursor;
    await heartbeat();
    if (!page.hasMore) break;
    await new Promise((r) => setTimeout(r, 500));
  }

  await db.accounts.update(accountId, { cursor, balanceCents: balance, syncedAt: new Date() });
  return imported;
}

async function onMessage({ topic, message, heartbeat }) {
  const { accountId } = JSON.parse(message.value.toString());

  // bank.webhook is keyed by connection and account.resync by user, so the same
  // account can be with two consumers at once
  const lock = await redlock.lock(`locks:bank-sync:${accountId}`, LOCK_TTL);
  try {
    const imported = await syncAccount(accountId, heartbeat);
    log.info({ topic, accountId, imported }, 'account synced');
  } finally {
    await lock.unlock().catch((err) => log.warn({ err, accountId }, 'unlock failed'));
  }
}

async function main() {
  await consumer.connect();
  await consumer.subscribe({ topics: ['bank.webhook', 'account.resync'] });
  await consumer.run({ partitionsConsumedConcurrently: 3, eachMessage: onMessage });
}

for (const sig of ['SIGINT', 'SIGTERM']) {
  process.once(sig, async () => {
    await consumer.disconnect();
    await redis.quit();
    process.exit(0);
  });
}

main().catch((err) => {
  log.fatal({ err }, 'bank-sync could not start');
  process.exit(1);
});
