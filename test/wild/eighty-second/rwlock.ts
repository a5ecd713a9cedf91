import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Redis } from 'ioredis'

// KEYS: writer, readers, waiting writer    ARGV: id, ttl
const CLOCK = `local t = redis.call('TIME'); local now = t[1] * 1000 + math.floor(t[2] / 1000)\n`

const scripts = {
  read: {
    take: `${CLOCK}
      if redis.call('EXISTS', KEYS[1], KEYS[3]) > 0 then return 0 end
      redis.call('ZADD', KEYS[2], now + ARGV[2], ARGV[1])
      redis.call('PEXPIRE', KEYS[2], ARGV[2])
      return 1`,
    keep: `${CLOCK}
      redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
      if not redis.call('ZSCORE', KEYS[2], ARGV[1]) then return 0 end
      redis.call('ZADD', KEYS[2], now + ARGV[2], ARGV[1])
      redis.call('PEXPIRE', KEYS[2], ARGV[2])
      return 1`,
    drop: `return redis.call('ZREM', KEYS[2], ARGV[1])`,
  },
  write: {
    take: `${CLOCK}
      redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
      if redis.call('EXISTS', KEYS[1]) == 1 or redis.call('ZCARD', KEYS[2]) > 0 then
        redis.call('SET', KEYS[3], ARGV[1], 'PX', 1000)
        return 0
      end
      redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
      redis.call('DEL', KEYS[3])
      return 1`,
    keep: `if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
      return redis.call('PEXPIRE', KEYS[1], ARGV[2])`,
    drop: `if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
      return redis.call('DEL', KEYS[1])`,
  },
} as const

type Mode = keyof typeof scripts
type Body<T> = (signal: AbortSignal) => Promise<T>

export const rwlock = (redis: Redis, { ttl = 10_000, patience = 20_000 } = {}) => {
  const guard =
    (mode: Mode) =>
    (name: string) =>
    async <T>(body: Body<T>): Promise<T> => {
      const keys = [`rw:{${name}}:w`, `rw:{${name}}:r`, `rw:{${name}}:next`]
      const id = randomUUID()
      const run = (step: 'take' | 'keep' | 'drop') => redis.eval(scripts[mode][step], 3, ...keys, id, ttl)

      const giveUp = Date.now() + patience
      let asked = Date.now()
      while ((await run('take')) !== 1) {
        if (Date.now() > giveUp) throw new Error(`${mode} lock on ${name}: timed out`)
        await sleep(50 + Math.random() * 100)
        asked = Date.now()
      }

      let over = false
      const gone = new AbortController()
      const lose = () => gone.abort(new Error(`${mode} lock on ${name}: lost`))
      const fuseAt = (ms: number) => setTimeout(lose, Math.max(0, ms - Date.now()))
      let fuse = fuseAt(asked + ttl * 0.8)
      const pulse = setInterval(async () => {
        const at = Date.now()
        const kept = await run('keep').catch(() => undefined)
        if (kept === 0) lose()
        if (kept !== 1 || over) return
        clearTimeout(fuse)
        fuse = fuseAt(at + ttl * 0.8)
      }, ttl / 4)

      try {
        gone.signal.throwIfAborted()
        const out = await body(gone.signal)
        gone.signal.throwIfAborted()
        return out
      } finally {
        over = true
        clearInterval(pulse)
        clearTimeout(fuse)
        await run('drop').catch(() => 0)
      }
    }

  return { reading: guard('read'), writing: guard('write') }
}
