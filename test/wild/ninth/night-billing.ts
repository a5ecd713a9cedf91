import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';

const DAY = 86_400_000;
const AT = 2 * 3_600_000; // 02:00 UTC
const KEEP_S = 2 * 86_400;
const MAX_LATE_S = 3_600;

// A tick is marked, not locked: the mark is not taken away after the run, or a
// replica whose clock is a bit behind would bill the same night again. It goes
// by itself after two days; an hour off the mark Redis refuses the tick anyway.
const MARK = `
local now = tonumber(redis.call('TIME')[1])
if math.abs(now - tonumber(ARGV[2])) > tonumber(ARGV[3]) then return 'late' end
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'EX', ARGV[4]) then return 'mine' end
if redis.call('GET', KEYS[1]) == ARGV[1] then return 'mine' end
return 'taken'`;

/** The tick meant by a timer that fires around now, be it a bit early or late. */
export function tickFor(nowMs: number): number {
  return Math.round((nowMs - AT) / DAY) * DAY + AT;
}

export interface Billing {
  openAccounts(): Promise<string[]>;
  bill(account: string, night: string): Promise<void>;
}

/**
 * Every replica calls this at 02:00. At most one of them bills a given night. If
 * that one dies, the night is not billed and the alert on billing:last tells us
 * (we prefer that to billing twice).
 */
export async function nightlyBilling(redis: Redis, billing: Billing, nowMs = Date.now()): Promise<boolean> {
  const tick = tickFor(nowMs);
  const night = new Date(tick).toISOString().slice(0, 10);

  let verdict: string;
  try {
    verdict = await redis.eval<string[], string>(
      MARK,
      [`billing:night:${night}`],
      [randomUUID(), String(tick / 1000), String(MAX_LATE_S), String(KEEP_S)],
    );
  } catch (err) {
    // perhaps marked, perhaps not; not knowing means not billing
    console.error(`billing ${night}: no verdict`, err);
    return false;
  }
  if (verdict !== 'mine') {
    console.info(`billing ${night}: ${verdict}`);
    return false;
  }

  const failed: string[] = [];
  for (const account of await billing.openAccounts()) {
    try {
      await billing.bill(account, night);
    } catch (err) {
      console.error(`billing ${night}: ${account}`, err);
      failed.push(account);
    }
  }
  await redis
    .set('billing:last', { night, failed }, { ex: 7 * 86_400 })
    .catch((err) => console.warn('billing: cannot note the night', err));
  return true;
}
