import { randomUUID } from 'crypto'
import { createClient, type RedisClientType } from 'redis'

const LOCK_MS = 4_000
const CACHE_SECONDS = 300

const UNLOCK = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`

// store the value only while the lock is ours: a slow loader must not overwrite a fresher value
const STORE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  redis.call('set', KEYS[2], ARGV[2], 'EX', ARGV[3])
  return 1
end
return 0`

export class ProductCache {
  constructor(private readonly redis: RedisClientType) {}

  static async connect(url = process.env.REDIS_URL ?? 'redis://localhost:6379') {
    const c = createClient({ url }) as RedisClientType
    c.on('error', (e) => console.error(e))
    await c.connect()
    return new ProductCache(c)
  }

  async get<T>(id: string, load: (id: string, signal: AbortSignal) => Promise<T>): Promise<T> {
    const cacheKey = `{product:${id}}`
    const lockKey = `{product:${id}}:lock`

    for (let i = 0; i < 100; i++) {
      const hit = await this.redis.get(cacheKey)
      if (hit !== null) return JSON.parse(hit) as T

      const token = randomUUID()
      const t0 = Date.now()
      let mine = false
      try {
        mine = (await this.redis.set(lockKey, token, { NX: true, PX: LOCK_MS })) === 'OK'
      } catch (err) {
        await this.unlock(lockKey, token)
        throw err
      }
      if (mine) {
        try {
          const left = t0 + LOCK_MS - 100 - Date.now()
          if (left > 0) {
            const signal = AbortSignal.timeout(left)
            const value = await load(id, signal)
            signal.throwIfAborted()
            await this.redis.eval(STORE, {
              keys: [lockKey, cacheKey],
              arguments: [token, JSON.stringify(value), String(CACHE_SECONDS)],
            })
            return value
          }
        } finally {
          await this.unlock(lockKey, token)
        }
      }
      await new Promise((r) => setTimeout(r, 50 + Math.random() * 50))
    }
    throw new Error(`product ${id}: gave up waiting for the other loader`)
  }

  private async unlock(lockKey: string, token: string) {
    await this.redis.eval(UNLOCK, { keys: [lockKey], arguments: [token] }).catch(() => undefined)
  }
}
