import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class TaxPeriodLocked extends Error {
  constructor(period) {
    super(`tax period ${period} is being closed`);
    this.code = 'TAX_PERIOD_LOCKED';
  }
}

/** @param redis connected node-redis client */
export function taxLocks(redis, { ttlSeconds = 45, retries = 5, log = console } = {}) {
  async function tryLock(key, token) {
    const reply = await redis.set(key, token, { NX: true, PX: ttlSeconds });
    return reply === 'OK';
  }

  async function unlock(key, token) {
    const n = await redis.eval(UNLOCK, { keys: [key], arguments: [token] });
    if (n === 0) log.warn(`${key} was not ours any more`);
  }

  return {
    async withPeriod(company, period, fn) {
      const key = `tax:${company}:${period}`;
      const token = randomUUID();
      for (let attempt = 0; ; attempt++) {
        if (await tryLock(key, token)) break;
        if (attempt >= retries) throw new TaxPeriodLocked(period);
        await sleep(100 * 2 ** attempt * (0.5 + Math.random() / 2));
      }
      log.info(`closing ${period} of ${company} (at most ${ttlSeconds}s)`);
      try {
        return await fn({ company, period });
      } finally {
        await unlock(key, token);
      }
    },
  };
}

export function quarterOf(date) {
  return `${date.getUTCFullYear()}-Q${Math.floor(date.getUTCMonth() / 3) + 1}`;
}

export function vat(netCents, ratePercent) {
  return Math.round((netCents * ratePercent) / 100);
}
