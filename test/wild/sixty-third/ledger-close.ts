import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import Redis from 'ioredis';
import { ledgerDb } from './db';
import { logger } from './logger';

const TTL_MS = 30_000;
const DRIFT_MS = TTL_MS * 0.01 + 2;
const STEP_TIMEOUT_MS = 10_000;
const ATTEMPTS = 3;

const STEPS = ['freeze-postings', 'accrue-interest', 'roll-balances', 'write-trial-balance'] as const;

const EXTEND = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

// Independent masters, e.g. redis://lock-a:6379,redis://lock-b:6379,redis://lock-c:6379
const nodes = (process.env.LEDGER_LOCK_NODES ?? '')
  .split(',')
  .filter(Boolean)
  .map((url) => {
    const node = new Redis(url, {
      lazyConnect: true,
      enableOfflineQueue: false,
      connectTimeout: 1_000,
      commandTimeout: 250,
    });
    node.on('error', (err) => logger.debug({ err, url }, 'lock node error'));
    return node;
  });

const QUORUM = Math.floor(nodes.length / 2) + 1;

export class LeaseLostError extends Error {
  override name = 'LeaseLostError';
}

async function countVotes(ask: (node: Redis) => Promise<boolean>): Promise<number> {
  const answers = await Promise.allSettled(nodes.map(ask));
  return answers.filter((answer) => answer.status === 'fulfilled' && answer.value).length;
}

const unlockEverywhere = (key: string, token: string) =>
  countVotes(async (node) => (await node.eval(UNLOCK, 1, key, token)) === 1);

interface QuorumLease {
  ensure(neededMs: number): Promise<void>;
  release(): Promise<void>;
}

function makeLease(key: string, token: string, firstValidUntil: number): QuorumLease {
  let validUntil = firstValidUntil;
  const remaining = () => validUntil - performance.now();

  return {
    async ensure(neededMs) {
      if (remaining() <= 0) throw new LeaseLostError(`${key}: lease ran out`);
      if (remaining() >= neededMs && remaining() > TTL_MS / 2) return;

      const startedAt = performance.now();
      const votes = await countVotes(
        async (node) => (await node.eval(EXTEND, 1, key, token, TTL_MS)) === 1,
      );
      if (votes < QUORUM) throw new LeaseLostError(`${key}: extended on ${votes} nodes only`);
      validUntil = startedAt + TTL_MS - DRIFT_MS;
      if (remaining() < neededMs) throw new LeaseLostError(`${key}: extension took too long`);
    },
    async release() {
      await unlockEverywhere(key, token);
    },
  };
}

async function acquire(key: string): Promise<QuorumLease | null> {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
    const token = randomBytes(16).toString('hex');
    const startedAt = performance.now();
    const votes = await countVotes(
      async (node) => (await node.set(key, token, 'PX', TTL_MS, 'NX')) === 'OK',
    );
    const validUntil = startedAt + TTL_MS - DRIFT_MS;
    if (votes >= QUORUM && performance.now() < validUntil) {
      return makeLease(key, token, validUntil);
    }
    await unlockEverywhere(key, token);
    await delay(100 + Math.random() * 300);
  }
  return null;
}

export async function closeLedger(book: string, period: string): Promise<boolean> {
  if (nodes.length === 0) throw new Error('LEDGER_LOCK_NODES is not set');
  await Promise.allSettled(nodes.map((node) => (node.status === 'wait' ? node.connect() : node)));

  const lease = await acquire(`ledger-close:${book}`);
  if (lease === null) {
    logger.info({ book, period }, 'ledger is being closed by another worker');
    return false;
  }

  try {
    for (const step of STEPS) {
      await lease.ensure(STEP_TIMEOUT_MS + 2_000);
      // Each step is one transaction, cancelled by the server after the timeout,
      // and is skipped if it has been recorded for the period.
      await ledgerDb.runStep(step, { book, period, timeoutMs: STEP_TIMEOUT_MS });
      logger.info({ book, period, step }, 'ledger step done');
    }
    return true;
  } finally {
    await lease.release();
  }
}
