import { hostname } from 'node:os';
import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';

const redis = Redis.fromEnv();

const DAY_S = 24 * 60 * 60;
const KEEP_S = 7 * DAY_S;
const MAX_LATENESS_MS = 2 * DAY_S * 1000;

export type GuardResult = 'ran' | 'skipped' | 'too-late';

export interface Pager {
  page(summary: string, detail: unknown): Promise<void>;
}

/**
 * Runs `job` at most once for a scheduled slot, whichever of the regions wakes up first.
 *
 * `scheduledFor` is the instant the scheduler put in the event (not "now"), so every
 * region and every redelivery derives the same slot. The claim is deliberately never given
 * back: a settlement run that died half way is looked at by a human and not re-run.
 */
export async function oncePerSlot(
  name: string,
  scheduledFor: Date,
  job: (slot: string) => Promise<void>,
  pager: Pager,
): Promise<GuardResult> {
  // Claims are kept for a week; events far older than that must not find a vacant slot.
  if (Date.now() - scheduledFor.getTime() > MAX_LATENESS_MS) {
    return 'too-late';
  }

  const slot = scheduledFor.toISOString().slice(0, 10);
  const claimant = `${hostname()}/${randomUUID()}`;
  const reply = await redis.set(`cron:${name}:${slot}`, claimant, { nx: true, ex: KEEP_S });
  if (reply !== 'OK') {
    return 'skipped';
  }

  try {
    await job(slot);
    return 'ran';
  } catch (err) {
    await pager.page(`${name} failed for ${slot}, needs a manual decision`, err);
    throw err;
  }
}

export interface SettlementService {
  settle(businessDay: string): Promise<void>;
}

export function makeNightlySettlement(service: SettlementService, pager: Pager) {
  return async (event: { scheduledTime: string }): Promise<{ status: GuardResult }> => {
    const at = new Date(event.scheduledTime);
    const status = await oncePerSlot('nightly-settlement', at, (day) => service.settle(day), pager);
    return { status };
  };
}
