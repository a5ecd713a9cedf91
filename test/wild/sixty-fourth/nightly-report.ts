/**
 * nightly-report.ts: started by cron at 02:00 on every node, does its work on one.
 *
 *   0 2 * * *  node --import tsx nightly-report.ts
 *
 * exit codes: 0 done or nothing to do, 1 failed
 */
import Redis from 'ioredis';
import Redlock, { ExecutionError, ResourceLockedError } from 'redlock5';
import { formatISO } from 'date-fns';
import { listCustomers, buildReport, uploadReport } from './reports.js';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379', {
  maxRetriesPerRequest: 3,
});
const redlock = new Redlock([redis], {
  retryCount: 0,
  automaticExtensionThreshold: 10_000,
});
redlock.on('error', (err) => {
  if (!(err instanceof ResourceLockedError)) console.error('[redlock]', err);
});

const day = formatISO(new Date(), { representation: 'date' });
const doneKey = `nightly-report:${day}:done`;

/** True when every node said "taken", false for outages and the like. */
async function lockedByAnother(err: unknown): Promise<boolean> {
  if (!(err instanceof ExecutionError)) return false;
  const attempts = await Promise.all(err.attempts);
  return attempts.every((stats) =>
    [...stats.votesAgainst.values()].every((reason) => reason instanceof ResourceLockedError),
  );
}

let started = false;
let code = 0;

try {
  await redlock.using([`lock:nightly-report`], 30_000, async (signal) => {
    started = true;
    const check = () => {
      if (signal.aborted) throw signal.error ?? new Error('lock lost');
    };

    // A node with a slow clock may come when the first one has finished.
    if (await redis.exists(doneKey)) {
      console.log(`report for ${day} was made already`);
      return;
    }

    for (const customer of await listCustomers()) {
      check();
      const pdf = await buildReport(customer, day, { timeout: 15_000 });
      check();
      // One object per customer and day: uploading it again replaces it by the same.
      await uploadReport(`reports/${day}/${customer.id}.pdf`, pdf, { timeout: 10_000 });
    }

    check();
    await redis.set(doneKey, new Date().toISOString(), 'EX', 2 * 24 * 3600);
    console.log(`report for ${day} made`);
  });
} catch (err) {
  if (!started && (await lockedByAnother(err))) {
    console.log('another node is at it');
  } else {
    console.error('nightly report failed', err);
    code = 1;
  }
}

redis.disconnect();
process.exit(code);
