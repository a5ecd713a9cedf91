import { randomUUID } from 'node:crypto'
import { performance } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Redis } from 'ioredis'

const EXTEND = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`

export class LockBusy extends Error {}
export class LockLost extends Error {}

/**
 * Runs fn while holding `key`. The lock is prolonged for as long as fn runs.
 * fn must hand the signal to everything it awaits and call
 * signal.throwIfAborted() right before each write: once it is aborted,
 * somebody else may be at work.
 */
export async function withLock<T>(
  redis: Redis,
  key: string,
  fn: (signal: AbortSignal) => Promise<T>,
  { ttlMs = 15_000, waitMs = 5_000 } = {},
): Promise<T> {
  const token = randomUUID()
  const usable = ttlMs * 0.9 // the rest is for clock drift and late timers
  const giveUpAt = performance.now() + waitMs
  const release = () => redis.eval(RELEASE, 1, key, token).catch(() => 0)

  let sentAt: number
  for (;;) {
    sentAt = performance.now()
    if ((await redis.set(key, token, 'PX', ttlMs, 'NX')) === 'OK') break
    if (performance.now() > giveUpAt) throw new LockBusy(key)
    await sleep(50 + Math.random() * 100)
  }

  // counted from when we asked, not from when the answer came
  let validUntil = sentAt + usable
  if (performance.now() >= validUntil) {
    await release()
    throw new LockBusy(key)
  }

  const ac = new AbortController()
  let finished = false
  let expiryTimer: NodeJS.Timeout | undefined
  let renewTimer: NodeJS.Timeout | undefined

  const armExpiry = () => {
    clearTimeout(expiryTimer)
    expiryTimer = setTimeout(() => ac.abort(new LockLost(key)), Math.max(0, validUntil - performance.now()))
  }

  const renew = async () => {
    const at = performance.now()
    try {
      const ok = await redis.eval(EXTEND, 1, key, token, ttlMs)
      if (finished || ac.signal.aborted) return
      if (ok !== 1) return ac.abort(new LockLost(key))
      validUntil = at + usable
      armExpiry()
    } catch {
      // maybe a hiccup; if it lasts, the expiry timer fires
    }
    if (!finished && !ac.signal.aborted) renewTimer = setTimeout(renew, ttlMs / 4)
  }

  armExpiry()
  renewTimer = setTimeout(renew, ttlMs / 4)

  try {
    const result = await fn(ac.signal)
    if (ac.signal.aborted || performance.now() >= validUntil) throw new LockLost(key)
    return result
  } finally {
    finished = true
    clearTimeout(expiryTimer)
    clearTimeout(renewTimer)
    await release()
  }
}
