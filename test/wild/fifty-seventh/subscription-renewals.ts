import Redis from 'ioredis';
import Redlock, { ExecutionError } from 'redlock5';
import type { PrismaClient } from '@prisma/client';
import { addMonths, startOfDay } from 'date-fns';
import pino from 'pino';
import { env } from '../env';
import { charge } from '../payments/charge';

const log = pino({ name: 'subscription-renewals' });

// Three standalone primaries in three zones, no replication between them.
const nodes = env.LOCK_REDIS_URLS.split(',').map((url) => {
  const client = new Redis(url, { maxRetriesPerRequest: 1, commandTimeout: 500 });
  client.on('error', (err) => log.warn({ err, url: new URL(url).host }, 'lock node error'));
  return client;
});

const redlock = new Redlock(nodes, {
  driftFactor: 0.01,
  retryCount: 0, // somebody else renews this shard, come back with the next tick
  automaticExtensionThreshold: 5_000,
});
redlock.on('error', (err) => log.debug({ err }, 'redlock'));

const LEASE_MS = 20_000;
const CHARGE_TIMEOUT_MS = 8_000;

export interface RenewalSummary {
  shard: number;
  renewed: number;
  failed: number;
  interrupted: boolean;
}

export async function renewShard(prisma: PrismaClient, shard: number): Promise<RenewalSummary | null> {
  const summary: RenewalSummary = { shard, renewed: 0, failed: 0, interrupted: false };
  let entered = false;

  try {
    await redlock.using([`renewals:shard:${shard}`], LEASE_MS, async (signal) => {
      entered = true;
      const due = await prisma.subscription.findMany({
        where: { shard, status: 'ACTIVE', nextChargeOn: { lte: startOfDay(new Date()) } },
        orderBy: { nextChargeOn: 'asc' },
        take: 500,
      });

      for (const sub of due) {
        if (signal.aborted) {
          summary.interrupted = true;
          throw signal.error ?? new Error('lock lost');
        }
        try {
          // The key names the period, not the attempt: if a charge is in flight while we lose
          // the lock, the next holder's charge for that period is the same one at the provider.
          await charge({
            customerId: sub.customerId,
            amount: sub.priceCents,
            idempotencyKey: `renewal:${sub.id}:${sub.nextChargeOn.toISOString()}`,
            timeoutMs: CHARGE_TIMEOUT_MS,
          });
          const { count } = await prisma.subscription.updateMany({
            where: { id: sub.id, nextChargeOn: sub.nextChargeOn },
            data: { nextChargeOn: addMonths(sub.nextChargeOn, 1), lastChargedAt: new Date() },
          });
          summary.renewed += count;
        } catch (err) {
          summary.failed += 1;
          log.error({ err, subscriptionId: sub.id }, 'renewal failed');
        }
      }
    });
  } catch (err) {
    if (err instanceof ExecutionError && !entered) return null; // no quorum: held elsewhere or nodes down
    if (err instanceof ExecutionError || summary.interrupted) {
      // Lost the lock on the way (or it could not be released any more). The remaining ones stay due.
      log.warn({ err, ...summary }, 'renewal lock lost');
      return { ...summary, interrupted: true };
    }
    throw err;
  }
  log.info(summary, 'shard renewed');
  return summary;
}
