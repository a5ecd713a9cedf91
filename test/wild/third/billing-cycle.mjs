import { randomUUID } from 'node:crypto'
import { createClient } from 'redis'

const redis = createClient({ url: process.env.REDIS_URL })
redis.on('error', (err) => console.error('redis error', err))

const KEY = 'cron:billing-cycle'
const TTL_SECONDS = 120

/**
 * Started by crontab every hour on each of the three hosts.
 * @param {(signal: AbortSignal) => Promise<void>} bill
 */
export async function runBillingCycle(bill) {
  if (!redis.isOpen) await redis.connect()

  const owner = randomUUID()
  const start = performance.now()
  const ok = await redis.set(KEY, owner, { NX: true, EX: TTL_SECONDS })
  if (ok !== 'OK') {
    console.log('billing cycle is running on another host')
    return false
  }

  const stop = new AbortController()
  const left = start + TTL_SECONDS * 1000 - 2000 - performance.now()
  const timer = setTimeout(() => stop.abort(new Error('billing cycle takes too long')), Math.max(0, left))
  try {
    await bill(stop.signal)
  } finally {
    clearTimeout(timer)
    const current = await redis.get(KEY)
    if (current === owner) {
      await redis.del(KEY)
    }
  }
  return true
}
