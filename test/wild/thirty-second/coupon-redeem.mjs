import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from 'redis'

const redis = createClient({ url: process.env.REDIS_URL })
redis.on('error', (err) => console.error('[coupons]', err))
await redis.connect()

const TTL_MS = 5000
const WAIT_MS = 2000

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`

// Stores the coupon only while the lock is still ours.
const COMMIT = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('set', KEYS[2], ARGV[2], 'KEEPTTL')
return 1`

async function lock(key) {
  const token = randomUUID()
  const until = Date.now() + WAIT_MS
  for (;;) {
    const reply = await redis.set(key, token, { NX: true, PX: TTL_MS })
    if (reply === 'OK') return token
    if (Date.now() >= until) return null
    await sleep(30 + Math.random() * 70)
  }
}

async function unlock(key, token) {
  try {
    await redis.eval(UNLOCK, { keys: [key], arguments: [token] })
  } catch (err) {
    console.warn(`could not unlock ${key}`, err)
  }
}

/**
 * POST /coupons/:code/redeem
 * @type {import('express').RequestHandler}
 */
export async function redeemCoupon(req, res, next) {
  const code = String(req.params.code).trim().toUpperCase()
  const userId = String(res.locals.userId)
  const lockKey = `{coupon:${code}}:lock`
  const dataKey = `{coupon:${code}}:data`

  try {
    const token = await lock(lockKey)
    if (!token) {
      res.status(503).set('retry-after', '2').json({ error: 'busy' })
      return
    }
    try {
      const raw = await redis.get(dataKey)
      if (raw === null) {
        res.status(404).json({ error: 'unknown coupon' })
        return
      }
      const coupon = JSON.parse(raw)
      if (coupon.redeemedBy.includes(userId)) {
        res.json({ code, percent: coupon.percent })
        return
      }
      if (coupon.redeemedBy.length >= coupon.limit) {
        res.status(410).json({ error: 'used up' })
        return
      }
      coupon.redeemedBy.push(userId)

      const saved = await redis.eval(COMMIT, {
        keys: [lockKey, dataKey],
        arguments: [token, JSON.stringify(coupon)],
      })
      if (Number(saved) !== 1) {
        res.status(503).set('retry-after', '1').json({ error: 'please try again' })
        return
      }
      res.json({ code, percent: coupon.percent })
    } finally {
      await unlock(lockKey, token)
    }
  } catch (err) {
    next(err)
  }
}
