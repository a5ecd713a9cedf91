'use strict';

const Redis = require('ioredis');
const Redlock = require('redlock4');
const { log } = require('../log');
const db = require('../db');
const bank = require('../bank');

const settings = {
  redisUrl: process.env.REDIS_URL || 'redis://localhost:6379',
  // Covers the bank's worst case and the statements around it.
  lockTtl: Number(process.env.CLAIM_LOCK_TTL_SECONDS || 60),
  bankTimeout: Number(process.env.BANK_TIMEOUT_MS || 20_000),
  queryTimeout: Number(process.env.QUERY_TIMEOUT_MS || 5_000),
};

const client = new Redis(settings.redisUrl, { maxRetriesPerRequest: 2 });
client.on('error', (err) => log.warn({ err }, 'redis'));

const redlock = new Redlock([client], {
  driftFactor: 0.01,
  retryCount: 10,
  retryDelay: 300,
  retryJitter: 150,
});
redlock.on('clientError', (err) => log.warn({ err }, 'redlock'));

async function payClaim(claimId) {
  const { rows } = await db.query({
    text: 'SELECT id, status, amount_cents, iban FROM claims WHERE id = $1',
    values: [claimId],
    query_timeout: settings.queryTimeout,
  });
  const claim = rows[0];
  if (!claim) throw new Error(`claim ${claimId} does not exist`);
  if (claim.status !== 'approved') {
    log.info({ claimId, status: claim.status }, 'nothing to pay');
    return null;
  }

  let transfer;
  try {
    transfer = await bank.send(
      { iban: claim.iban, amountCents: claim.amount_cents, text: `Claim ${claim.id}` },
      { timeout: settings.bankTimeout, retries: 0 },
    );
  } catch (err) {
    // Nobody knows whether the money went out: a person looks at it.
    log.error({ err, claimId }, 'payout unclear');
    await db.query({
      text: "UPDATE claims SET status = 'review' WHERE id = $1",
      values: [claimId],
      query_timeout: settings.queryTimeout,
    });
    return null;
  }

  await db.query({
    text: "UPDATE claims SET status = 'paid', transfer_id = $2, paid_at = now() WHERE id = $1",
    values: [claimId, transfer.id],
    query_timeout: settings.queryTimeout,
  });
  return transfer.id;
}

/**
 * Job handler for "claim.payout". The queue delivers at least once, and the
 * back office may press the button while the job waits.
 */
async function handlePayoutJob(job) {
  const { claimId } = job.data;
  let lock;
  try {
    lock = await redlock.lock(`locks:claim:${claimId}:payout`, settings.lockTtl);
  } catch (err) {
    if (err.name !== 'LockError') throw err;
    log.info({ claimId }, 'payout in progress, job goes back to the queue');
    await job.retryLater(30_000);
    return;
  }

  try {
    const transferId = await payClaim(claimId);
    if (transferId) log.info({ claimId, transferId }, 'claim paid');
    await job.complete();
  } finally {
    await lock.unlock().catch((err) => log.warn({ err, claimId }, 'payout unlock failed'));
  }
}

module.exports = { handlePayoutJob };
