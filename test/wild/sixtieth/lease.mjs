import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';

export function connect(url) {
  const redis = new Redis(url, { commandTimeout: 3_000, maxRetriesPerRequest: 2 });
  redis.on('error', (err) => console.error('redis', err.message));
  redis.defineCommand('leaseRenew', {
    numberOfKeys: 1,
    lua: `if redis.call('get', KEYS[1]) == ARGV[1] then
            return redis.call('pexpire', KEYS[1], ARGV[2])
          end
          return 0`,
  });
  redis.defineCommand('leaseDrop', {
    numberOfKeys: 1,
    lua: `if redis.call('get', KEYS[1]) == ARGV[1] then
            return redis.call('del', KEYS[1])
          end
          return 0`,
  });
  return redis;
}

/**
 * Runs fn(signal) while holding a lease that is renewed every third of its ttl.
 * The signal aborts as soon as the lease is lost, and also when renewals have
 * not been confirmed in time; fn has to stop then.
 */
export async function withLease(redis, name, fn, { ttl = 20_000, margin = 3_000 } = {}) {
  const key = `lease:${name}`;
  const token = randomBytes(16).toString('hex');
  const drop = () => redis.leaseDrop(key, token).catch((err) => console.warn(`release of ${key} failed`, err.message));

  let expiresAt = performance.now() + ttl;
  let reply;
  try {
    reply = await redis.set(key, token, 'PX', ttl, 'NX');
  } catch (err) {
    await drop();
    throw err;
  }
  if (reply !== 'OK') return { ran: false };

  const lost = new AbortController();
  const done = new AbortController();
  let watchdog;
  const arm = () => {
    clearTimeout(watchdog);
    const left = expiresAt - margin - performance.now();
    watchdog = setTimeout(() => lost.abort(new Error(`lease ${name} not renewed in time`)), Math.max(0, left));
  };
  arm();

  const renew = async () => {
    for (;;) {
      await sleep(ttl / 3, undefined, { signal: done.signal });
      const sentAt = performance.now();
      let kept;
      try {
        kept = await redis.leaseRenew(key, token, ttl);
      } catch (err) {
        console.warn(`renewal of ${key} failed, the watchdog is running`, err.message);
        continue;
      }
      if (done.signal.aborted || lost.signal.aborted) return;
      if (kept !== 1) return lost.abort(new Error(`lease ${name} was lost`));
      expiresAt = sentAt + ttl;
      arm();
    }
  };
  renew().catch(() => {}); // rejects only when the sleep is cancelled

  try {
    const value = await fn(lost.signal);
    lost.signal.throwIfAborted();
    return { ran: true, value };
  } finally {
    done.abort();
    clearTimeout(watchdog);
    await drop();
  }
}

export async function createMonthlyInvoices(redis, db, month) {
  return withLease(redis, `invoices:${month}`, async (signal) => {
    const { rows } = await db.query('select id from customers where active order by id');
    for (const { id } of rows) {
      signal.throwIfAborted();
      // (customer_id, month) is unique
      await db.query(
        'insert into invoices (customer_id, month) values ($1, $2) on conflict do nothing',
        [id, month],
      );
    }
    return rows.length;
  });
}
