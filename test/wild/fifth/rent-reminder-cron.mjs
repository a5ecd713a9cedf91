import { createClient } from 'redis';
import { randomUUID } from 'node:crypto';

// Every pod has the same schedule (1st of the month, 08:00). The tenants want ONE mail.

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => console.error('rent reminder:', err.message));

const GUARD_TTL_SECONDS = 15 * 60;

const CLEAR = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

/**
 * Wraps a cron job so that it is run by one pod per firing.
 * @template T
 * @param {string} name
 * @param {(fireDate: Date) => Promise<T>} job
 */
export function oncePerFiring(name, job) {
  return async (fireDate = new Date()) => {
    if (!redis.isOpen) await redis.connect();
    const key = `cron:${name}:running`;
    const token = randomUUID();

    const reply = await redis.set(key, token, {
      condition: 'NX',
      expiration: { type: 'EX', value: GUARD_TTL_SECONDS },
    });
    if (reply !== 'OK') {
      console.log(`${name}: another pod does it`);
      return { ran: false };
    }

    const started = performance.now();
    try {
      const result = await job(fireDate);
      console.log(`${name}: done in ${Math.round(performance.now() - started)} ms`);
      return { ran: true, result };
    } catch (err) {
      console.error(`${name}: failed`, err);
      return { ran: true, error: err };
    } finally {
      await redis
        .eval(CLEAR, { keys: [key], arguments: [token] })
        .catch((err) => console.warn(`${name}: guard not cleared: ${err.message}`));
    }
  };
}

function monthName(date) {
  return date.toLocaleString('en-GB', { month: 'long', year: 'numeric', timeZone: 'UTC' });
}

export function rentReminder({ leases, mailer }) {
  return oncePerFiring('rent-reminder', async (fireDate) => {
    const due = await leases.dueOn(fireDate);
    // the mail service takes them as one batch, this is a matter of a second
    await mailer.sendBatch(
      due.map((lease) => ({
        to: lease.tenantEmail,
        subject: `Your rent for ${monthName(fireDate)}`,
        text: `Dear ${lease.tenantName}, your rent of ${(lease.cents / 100).toFixed(2)} EUR is due on the 3rd.`,
      })),
      { signal: AbortSignal.timeout(60_000) },
    );
    return due.length;
  });
}

/** @param cron node-cron or compatible */
export function register(cron, deps) {
  const run = rentReminder(deps);
  return cron.schedule('0 8 1 * *', () => run(new Date()), { timezone: 'Europe/Berlin' });
}
