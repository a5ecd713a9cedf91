import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { createClient } from 'redis'

const redis = createClient({ url: process.env.REDIS_URL })
redis.on('error', (e) => console.error('redis:', e.message))
const ready = redis.connect()

const TTL_MS = Number(process.env.COUPON_LOCK_TTL_MS ?? 8000)

const RELEASE = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
  end
  return 0
`

export class CouponBusy extends Error {
  constructor(code: string) {
    super(`coupon ${code} is being redeemed, try again`)
  }
}

export type Outcome =
  | { ok: true; remaining: number }
  | { ok: false; reason: 'unknown' | 'used-up' | 'already-redeemed' }

async function couponLock(code: string): Promise<AsyncDisposable> {
  const key = `lock:coupon:${code}`
  for (let attempt = 0; attempt < 40; attempt++) {
    const token = randomUUID()
    if ((await redis.set(key, token, { NX: true, PX: TTL_MS })) === 'OK') {
      return {
        // never throws: a lock we cannot give back goes away with its TTL
        async [Symbol.asyncDispose]() {
          try {
            await redis.eval(RELEASE, { keys: [key], arguments: [token] })
          } catch (e) {
            console.warn(`release of ${key} failed`, e)
          }
        },
      }
    }
    await wait(40 + Math.random() * 60)
  }
  throw new CouponBusy(code)
}

async function countRedemption(code: string, userId: string): Promise<Outcome> {
  const coupon = await redis.hGetAll(`coupon:${code}`)
  if (!coupon.limit) return { ok: false, reason: 'unknown' }

  const used = Number(coupon.used ?? 0)
  const limit = Number(coupon.limit)
  if (used >= limit) return { ok: false, reason: 'used-up' }

  if (await redis.sIsMember(`coupon:${code}:users`, userId)) {
    return { ok: false, reason: 'already-redeemed' }
  }

  await redis
    .multi()
    .hSet(`coupon:${code}`, 'used', String(used + 1))
    .sAdd(`coupon:${code}:users`, userId)
    .exec()

  return { ok: true, remaining: limit - used - 1 }
}

/** Redeems one use of the coupon for the user; one redemption per coupon at a time. */
export async function redeem(code: string, userId: string): Promise<Outcome> {
  await ready
  const normalized = code.trim().toUpperCase()

  // held until we leave this function, whichever way
  await using _lock = await couponLock(normalized)

  return countRedemption(normalized, userId)
}
