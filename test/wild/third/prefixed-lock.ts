import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', {
  keyPrefix: 'shop:',
  maxRetriesPerRequest: 2,
})

const RELEASE = `
if redis.call('GET', ARGV[1]) == ARGV[2] then
  return redis.call('DEL', ARGV[1])
end
return 0`

export interface ShopLock {
  key: string
  token: string
  validUntil: number
}

export async function acquireLock(name: string, ttlMs = 30_000): Promise<ShopLock | undefined> {
  const key = `lock:${name}`
  const token = randomUUID()
  const sent = performance.now()
  const answer = await redis.set(key, token, 'PX', ttlMs, 'NX')
  if (answer !== 'OK') return undefined
  const lock = { key, token, validUntil: sent + ttlMs * 0.98 - 5 }
  if (performance.now() < lock.validUntil) return lock
  await releaseLock(lock)
  return undefined
}

export async function releaseLock({ key, token }: ShopLock): Promise<void> {
  await redis.eval(RELEASE, 0, key, token)
}
