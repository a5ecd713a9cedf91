import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';

// Invoked by the platform's scheduler every five minutes, on every region that is up.
// The platform kills an invocation after 300 s.

export interface SpendSource {
  activeCampaigns(signal: AbortSignal): Promise<{ id: string; dailyBudget: number }[]>;
  /** Spend from midnight up to `until`. */
  spendUntil(campaignId: string, until: Date, signal: AbortSignal): Promise<number>;
}

interface Outcome {
  slot: string;
  result: 'ran' | 'taken' | 'failed';
  campaigns?: number;
}

const RUNNING_SECONDS = 15 * 60;
const DONE_SECONDS = 26 * 3600;
const DEADLINE_MS = 240_000;

const FINISH = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], 'done', 'EX', ARGV[2])
return 1`;

const GIVE_BACK = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`;

// Slots are ISO hours, which sort as text. A late run of an old hour leaves the pointer alone.
const ADVANCE = `
local current = redis.call('GET', KEYS[1])
if current and current >= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
return 1`;

const slotOf = (at: Date) => at.toISOString().slice(0, 13);

async function claim(redis: Redis, key: string, mine: string): Promise<boolean> {
  const reply = await redis.set(key, mine, { nx: true, ex: RUNNING_SECONDS });
  if (reply === 'OK') return true;
  // The HTTP client resends a request whose response got lost; the second SET then meets our own value.
  return (await redis.get<string>(key)) === mine;
}

async function repace(redis: Redis, source: SpendSource, slot: string, signal: AbortSignal): Promise<number> {
  const until = new Date(`${slot}:00:00.000Z`);
  const elapsedShare = Math.max(until.getUTCHours(), 1) / 24;
  const campaigns = await source.activeCampaigns(signal);
  const multipliers: Record<string, number> = {};
  for (const { id, dailyBudget } of campaigns) {
    signal.throwIfAborted();
    const spent = await source.spendUntil(id, until, signal);
    const target = dailyBudget * elapsedShare;
    multipliers[id] = spent === 0 ? 2 : Math.min(2, Math.max(0.1, target / spent));
  }
  signal.throwIfAborted();
  if (campaigns.length > 0) await redis.hset(`pacing:multipliers:${slot}`, multipliers);
  await redis.eval(ADVANCE, ['pacing:current'], [slot]);
  return campaigns.length;
}

export async function onSchedule(scheduledFor: Date, source: SpendSource, redis = Redis.fromEnv()): Promise<Outcome> {
  const slot = slotOf(scheduledFor);
  const key = `pacing:run:${slot}`;
  const mine = `running:${randomUUID()}`;

  if (!(await claim(redis, key, mine))) return { slot, result: 'taken' };

  let campaigns: number;
  try {
    campaigns = await repace(redis, source, slot, AbortSignal.timeout(DEADLINE_MS));
  } catch (err) {
    console.error(`[pacing] ${slot} failed, handing the slot to the next trigger`, err);
    await redis.eval(GIVE_BACK, [key], [mine]).catch((e: unknown) => {
      console.error(`[pacing] ${slot} stays claimed for up to ${RUNNING_SECONDS} s`, e);
    });
    return { slot, result: 'failed' };
  }

  // The key stays until well after the hour is over, so later triggers of the same hour find it.
  const marked = await redis.eval(FINISH, [key], [mine, String(DONE_SECONDS)]);
  if (marked !== 1) console.warn(`[pacing] ${slot}: claim was gone at the end`);
  return { slot, result: 'ran', campaigns };
}
