import type { createClient } from 'redis';

type Client = ReturnType<typeof createClient>;
export type Datum = { offsetMm: number; surveyedAt: string; by: string };

export class GaugeBusy extends Error {}
export class StaleFence extends Error {}

const TTL_MS = Number(process.env.GAUGE_LOCK_TTL_MS ?? 20_000);

export async function recalibrate(
  redis: Client,
  gaugeId: string,
  compute: (current: Datum | null, signal: AbortSignal) => Promise<Datum>,
): Promise<Datum> {
  const k = keysOf(gaugeId);
  const fence = (await redis.eval(TAKE, {
    keys: [k.lock, k.fence],
    arguments: [String(TTL_MS)],
  })) as number | null;
  if (fence === null) throw new GaugeBusy(gaugeId);

  try {
    const raw = await redis.get(k.datum);
    const next = await compute(raw ? (JSON.parse(raw) as Datum) : null, AbortSignal.timeout(TTL_MS));
    const stored = await redis.eval(STORE, {
      keys: [k.datum, k.fence],
      arguments: [String(fence), JSON.stringify(next)],
    });
    if (stored !== 1) throw new StaleFence(`${gaugeId}: fence ${fence} superseded`);
    return next;
  } finally {
    await redis
      .eval(DROP, { keys: [k.lock], arguments: [String(fence)] })
      .catch((err: Error) => console.warn(`gauge ${gaugeId}: unlock failed, expires by itself`, err.message));
  }
}

function keysOf(gaugeId: string) {
  const tag = `tide:{${gaugeId}}`;
  return { lock: `${tag}:lock`, fence: `${tag}:fence`, datum: `${tag}:datum` };
}

const TAKE = `
if redis.call('EXISTS', KEYS[1]) == 1 then return false end
local fence = redis.call('INCR', KEYS[2])
redis.call('SET', KEYS[1], fence, 'PX', ARGV[1])
return fence`;

const STORE = `
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1`;

const DROP = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;
