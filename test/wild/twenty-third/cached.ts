// read-through cache, Upstash flavour
import { Redis } from '@upstash/redis'
import { setTimeout as wait } from 'node:timers/promises'

type Box<T> = { v: T } // so that a cached null is not a miss

// store + unlock in one go, and only while the lock is still ours
const STORE = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('set', KEYS[2], ARGV[2], 'PX', ARGV[3])
redis.call('del', KEYS[1])
return 1`

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`

export function createCache(redis: Redis = Redis.fromEnv(), { lockMs = 8_000, patienceMs = 3_000 } = {}) {
  const names = (key: string) => ({ data: `c:{${key}}`, lock: `c:{${key}}:lock` })

  /**
   * The lock is there to spare the database, not to forbid a second load: after
   * `patienceMs` a waiting caller loads on its own. What it does guarantee is that a
   * loader which was overtaken or invalidated does not put its old value in the cache.
   */
  async function get<T>(key: string, ttlMs: number, load: () => Promise<T>): Promise<T> {
    const { data, lock } = names(key)
    const until = Date.now() + patienceMs

    do {
      const hit = await redis.get<Box<T>>(data)
      if (hit) return hit.v

      const token = crypto.randomUUID()
      if ((await redis.set(lock, token, { nx: true, px: lockMs })) === 'OK') {
        let value: T
        try {
          value = await load()
        } catch (err) {
          await redis.eval(UNLOCK, [lock], [token]).catch(() => 0)
          throw err
        }
        const box: Box<T> = { v: value }
        await redis
          .eval(STORE, [lock, data], [token, JSON.stringify(box), ttlMs])
          .catch((err) => console.warn('cache store', key, err))
        return value
      }
      await wait(100 + Math.random() * 150)
    } while (Date.now() < until)

    return load() // not stored
  }

  /** Call after the commit. Dropping the lock as well keeps loaders already under way from storing. */
  async function invalidate(key: string): Promise<void> {
    const { data, lock } = names(key)
    await redis.del(data, lock)
  }

  return { get, invalidate }
}
