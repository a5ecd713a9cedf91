import Redis from 'ioredis';
import pg from 'pg';
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import logger from '../logger.mjs';

const pool = new pg.Pool({ statement_timeout: 1_500, connectionTimeoutMillis: 1_000 });

const nodes = ['lock-a', 'lock-b', 'lock-c', 'lock-d', 'lock-e'].map((host) => {
  const node = new Redis({
    host,
    commandTimeout: 250,
    maxRetriesPerRequest: 0,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
  });
  node.on('error', (err) => logger.debug({ host, err }, 'lock node'));
  return node;
});

const QUORUM = Math.floor(nodes.length / 2) + 1;
const TTL_MS = 15_000;
const DRIFT_MS = Math.ceil(TTL_MS * 0.01) + 2;
const NEEDED_MS = 9_000;

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

export class PortfolioBusy extends Error {}
export class LimitExceeded extends Error {}

async function release({ key, token }) {
  await Promise.allSettled(nodes.map((node) => node.eval(RELEASE, 1, key, token)));
}

async function acquire(key, { attempts = 12 } = {}) {
  for (let attempt = 1; attempt <= attempts; attempt += 1) {
    const token = randomBytes(16).toString('base64url');
    const startedAt = performance.now();

    const results = await Promise.allSettled(
      nodes.map((node) => node.set(key, token, 'PX', TTL_MS, 'NX')),
    );
    const granted = results.filter((r) => r.status === 'fulfilled').length;
    const validUntil = startedAt + TTL_MS - DRIFT_MS;

    if (granted >= QUORUM && validUntil - performance.now() > NEEDED_MS) {
      return { key, token, validUntil };
    }

    logger.debug({ key, attempt, granted }, 'no quorum');
    await release({ key, token });
    await sleep(40 + Math.random() * 160);
  }
  throw new PortfolioBusy(key);
}

/** Intraday bid, the open volume of a portfolio has to stay under its limit. */
export async function submitBid({ portfolioId, deliveryHour, volumeMw, priceEur }) {
  const lock = await acquire(`bids:portfolio:${portfolioId}`);
  try {
    const { rows } = await pool.query(
      `SELECT p.limit_mw, coalesce(sum(b.volume_mw), 0) AS open_mw
         FROM portfolios p
         LEFT JOIN bids b ON b.portfolio_id = p.id AND b.status = 'open'
        WHERE p.id = $1
        GROUP BY p.id`,
      [portfolioId],
    );
    if (rows.length === 0) throw new Error(`unknown portfolio ${portfolioId}`);
    const { limit_mw: limit, open_mw: open } = rows[0];
    if (Number(open) + volumeMw > Number(limit)) {
      throw new LimitExceeded(`${open} + ${volumeMw} MW exceeds ${limit} MW`);
    }

    if (performance.now() > lock.validUntil - 3_000) throw new PortfolioBusy(lock.key);

    const bid = await pool.query(
      `INSERT INTO bids (portfolio_id, delivery_hour, volume_mw, price_eur, status)
       VALUES ($1, $2, $3, $4, 'open') RETURNING id`,
      [portfolioId, deliveryHour, volumeMw, priceEur],
    );
    return bid.rows[0].id;
  } finally {
    await release(lock);
  }
}
