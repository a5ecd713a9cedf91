'use strict';

const Redis = require('ioredis');
const Redlock = require('redlock4');
const { Pool } = require('pg');
const { Kafka } = require('kafkajs');
const pino = require('pino');

const log = pino({ name: 'wallet-topup' });

const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 2000,
  statement_timeout: 2000,
});

const redis = new Redis(process.env.REDIS_URL, { commandTimeout: 1500 });
const redlock = new Redlock([redis], {
  driftFactor: 0.01,
  retryCount: 15,
  retryDelay: 200,
  retryJitter: 100,
});
redlock.on('clientError', (err) => log.warn({ err }, 'lock client error'));

const LOCK_TTL_MS = 25000;
const WORK_BUDGET_MS = 15000;

async function findWallet(walletId) {
  const { rows } = await pool.query('SELECT id, balance_cents, currency, frozen FROM wallets WHERE id = $1', [walletId]);
  return rows[0];
}

async function alreadyBooked(paymentId) {
  const { rowCount } = await pool.query('SELECT 1 FROM wallet_entries WHERE payment_id = $1', [paymentId]);
  return rowCount > 0;
}

async function book(walletId, paymentId, amountCents, newBalance) {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    await client.query('INSERT INTO wallet_entries (wallet_id, payment_id, amount_cents) VALUES ($1, $2, $3)', [
      walletId,
      paymentId,
      amountCents,
    ]);
    await client.query('UPDATE wallets SET balance_cents = $2 WHERE id = $1', [walletId, newBalance]);
    await client.query('COMMIT');
  } catch (err) {
    await client.query('ROLLBACK').catch(() => {});
    throw err;
  } finally {
    client.release();
  }
}

async function topUp({ walletId, paymentId, amountCents, currency }) {
  const wallet = await findWallet(walletId);
  if (!wallet) throw new Error(`unknown wallet ${walletId}`);
  if (wallet.frozen || wallet.currency !== currency) {
    log.warn({ walletId, paymentId, currency, frozen: wallet.frozen }, 'top-up refused');
    return null;
  }

  const lock = await redlock.lock(`wallet:${walletId}`, LOCK_TTL_MS);
  try {
    if (await alreadyBooked(paymentId)) {
      log.info({ walletId, paymentId }, 'top-up was booked before');
      return Number(wallet.balance_cents);
    }
    const newBalance = Number(wallet.balance_cents) + amountCents;
    if (lock.expiration - Date.now() < WORK_BUDGET_MS) {
      throw new Error(`lock on wallet ${walletId} is running out`);
    }
    await book(walletId, paymentId, amountCents, newBalance);
    log.info({ walletId, paymentId, amountCents, newBalance }, 'wallet topped up');
    return newBalance;
  } finally {
    await lock.unlock().catch((err) => log.warn({ err, walletId }, 'unlock failed'));
  }
}

async function start() {
  const kafka = new Kafka({ clientId: 'wallet-topup', brokers: process.env.KAFKA_BROKERS.split(',') });
  const consumer = kafka.consumer({ groupId: 'wallet-topup' });
  await consumer.connect();
  await consumer.subscribe({ topic: 'payments.captured', fromBeginning: false });
  await consumer.run({
    partitionsConsumedConcurrently: 8,
    eachMessage: async ({ message }) => {
      const event = JSON.parse(message.value.toString());
      if (event.purpose !== 'WALLET_TOPUP') return;
      await topUp(event);
    },
  });
  process.once('SIGTERM', () => consumer.disconnect());
}

module.exports = { topUp, start };
