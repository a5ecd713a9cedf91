import Redis from 'ioredis';
import { randomUUID } from 'node:crypto';

// One bid per lot is looked at at a time. The guard value is a small json so that support can
// see in redis-cli who is in there.

interface GuardValue {
  token: string;
  bidder: string;
  host: string;
}

const GUARD_MS = 8_000;
const RESERVE_MS = 1_000;

const LEAVE = `
local raw = redis.call('GET', KEYS[1])
if raw and cjson.decode(raw).token == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
redis.on('error', (err) => console.error('auction redis:', err.message));

export interface Guard {
  lot: string;
  token: string;
  msLeft(): number;
}

export async function enterLot(lot: string, bidder: string): Promise<Guard | null> {
  const key = `auction:lot:${lot}:guard`;
  const value: GuardValue = { token: randomUUID(), bidder, host: process.env.HOSTNAME ?? '?' };
  const asked = performance.now();

  await redis.watch(key);
  const current = await redis.get(key);
  if (current !== null) {
    await redis.unwatch();
    return null;
  }

  // exec() is null when the key was touched since we looked at it
  const done = await redis.multi().set(key, JSON.stringify(value), 'PX', GUARD_MS).exec();
  if (done === null || done[0][0] || done[0][1] !== 'OK') return null;

  const endsAt = asked + GUARD_MS - RESERVE_MS;
  return { lot, token: value.token, msLeft: () => endsAt - performance.now() };
}

export async function leaveLot(guard: Guard): Promise<void> {
  try {
    await redis.eval(LEAVE, 1, `auction:lot:${guard.lot}:guard`, guard.token);
  } catch (err) {
    console.warn(`lot ${guard.lot} stays guarded until it expires`, err);
  }
}

export interface Lots {
  highest(lot: string, o: { timeoutMs: number }): Promise<number>;
  record(lot: string, bidder: string, cents: number, o: { timeoutMs: number }): Promise<void>;
}

export type BidResult = 'accepted' | 'too-low' | 'busy' | 'late';

const minimumStep = (cents: number) => (cents < 10_000 ? 100 : cents < 100_000 ? 500 : 2_500);

/** Called for each websocket message {type: "bid"}; one node process serves a few hundred sockets. */
export async function placeBid(lots: Lots, lot: string, bidder: string, cents: number): Promise<BidResult> {
  let guard: Guard | null = null;
  for (let i = 0; i < 5 && !guard; i++) {
    guard = await enterLot(lot, bidder);
    if (!guard) await new Promise((r) => setTimeout(r, 40 + Math.random() * 80));
  }
  if (!guard) return 'busy';

  try {
    const highest = await lots.highest(lot, { timeoutMs: 1_500 });
    if (cents < highest + minimumStep(highest)) return 'too-low';
    if (guard.msLeft() < 2_000) return 'late';
    await lots.record(lot, bidder, cents, { timeoutMs: 2_000 });
    return 'accepted';
  } finally {
    await leaveLot(guard);
  }
}
