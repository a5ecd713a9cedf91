import { randomBytes } from 'node:crypto';
import { DelayedError, type Job } from 'bullmq';
import { lockRedis } from './clients/redis.js';
import { logger } from './logging.js';

interface MeterReportJob {
  tenantId: string;
}

export interface MeterDeps {
  usage: {
    cursor(tenantId: string): Promise<number>;
    sumBetween(tenantId: string, fromHour: number, toHour: number, signal: AbortSignal): Promise<number>;
    /** UPDATE meter_cursors SET hour = :to WHERE tenant_id = :t AND hour = :from */
    advance(tenantId: string, fromHour: number, toHour: number): Promise<boolean>;
  };
  billing: {
    reportUsage(
      body: { tenantId: string; hour: number; units: number },
      opts: { idempotencyKey: string; signal: AbortSignal },
    ): Promise<void>;
  };
  notifier: {
    usageReported(msg: { id: string; tenantId: string; hours: number[] }): Promise<void>;
  };
}

const LOCK_TTL_MS = 30_000;
const WORK_BUDGET_MS = 20_000;
const RETRY_IN_MS = 5_000;

const UNLOCK = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  else
    return 0
  end
`;

/**
 * Reports a tenant's hourly usage to the billing provider, hour after hour from the tenant's cursor.
 * One worker for each tenant at a time; a worker which is frozen past its budget can at worst repeat an
 * hour, and the provider counts an idempotency key once.
 */
export function makeMeterReportProcessor(deps: MeterDeps) {
  return async function process(job: Job<MeterReportJob>, jobToken?: string): Promise<{ hours: number }> {
    const { tenantId } = job.data;
    const key = `meter:${tenantId}`;
    const owner = randomBytes(16).toString('base64url');

    // The clock starts before SET leaves, so budget + latency stays below the TTL.
    const signal = AbortSignal.timeout(WORK_BUDGET_MS);

    const locked = await lockRedis.set(key, owner, 'PX', LOCK_TTL_MS, 'NX');
    if (locked === null) {
      await job.moveToDelayed(Date.now() + RETRY_IN_MS, jobToken);
      throw new DelayedError();
    }

    let reported: number[] = [];
    try {
      reported = await reportHours(tenantId, deps, signal);
    } finally {
      try {
        await lockRedis.eval(UNLOCK, 1, key, owner);
      } catch (err) {
        logger.warn({ err, tenantId }, 'meter lock will expire by itself');
      }
    }

    // Deliberately after the unlock: mail is slow, and the next worker need not wait for it.
    // The id makes the notifier drop repetitions. It is a courtesy: of a run that fails half-way no mail
    // is sent, tenants see the hours in the portal.
    if (reported.length > 0) {
      await deps.notifier.usageReported({
        id: `usage-reported:${tenantId}:${reported[0]}`,
        tenantId,
        hours: reported,
      });
    }
    return { hours: reported.length };
  };
}

async function reportHours(tenantId: string, deps: MeterDeps, signal: AbortSignal): Promise<number[]> {
  const lastFullHour = Math.floor(Date.now() / 3_600_000) - 1;
  const reported: number[] = [];
  let hour = await deps.usage.cursor(tenantId);

  while (hour < lastFullHour && !signal.aborted) {
    const units = await deps.usage.sumBetween(tenantId, hour, hour + 1, signal);
    await deps.billing.reportUsage(
      { tenantId, hour, units },
      { idempotencyKey: `usage:${tenantId}:${hour}`, signal },
    );
    if (!(await deps.usage.advance(tenantId, hour, hour + 1))) {
      logger.info({ tenantId, hour }, 'cursor was moved by someone else, leaving the rest to them');
      break;
    }
    reported.push(hour);
    hour += 1;
  }
  return reported;
}
