import { randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis'

const TTL = 10_000
const MARGIN = 200

const NOW = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
`

// KEYS[1]: token of the writer. KEYS[2]: tokens of the readers, by the time at which they expire.
const TAKE_READ = `${NOW}
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('ZADD', KEYS[2], now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 1`

const TAKE_WRITE = `${NOW}
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
if redis.call('ZCARD', KEYS[2]) > 0 then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`

const DROP_READ = `return redis.call('ZREM', KEYS[2], ARGV[1])`

const DROP_WRITE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`

export class CatalogBusy extends Error {}

/** Many may read the catalogue; an import wants it for itself. */
export class CatalogLocks {
  constructor(
    private readonly redis: Redis,
    private readonly waitMs = 8_000,
  ) {}

  withRead<T>(catalog: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return this.during(catalog, TAKE_READ, DROP_READ, work)
  }

  withWrite<T>(catalog: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return this.during(catalog, TAKE_WRITE, DROP_WRITE, work)
  }

  private async during<T>(
    catalog: string,
    take: string,
    drop: string,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const keys = [`{${catalog}}:writer`, `{${catalog}}:readers`]
    const token = randomUUID()
    const stopWaiting = performance.now() + this.waitMs
    let left = 0
    while (left <= 0) {
      const asked = performance.now()
      const taken = await this.redis.eval(take, 2, ...keys, token, TTL)
      left = taken === 1 ? asked + TTL - MARGIN - performance.now() : 0
      if (left > 0) break
      if (taken === 1) await this.redis.eval(drop, 2, ...keys, token)
      if (performance.now() > stopWaiting) throw new CatalogBusy(catalog)
      await new Promise((resolve) => setTimeout(resolve, 40 + Math.random() * 80))
    }

    const abort = new AbortController()
    const timer = setTimeout(() => abort.abort(new Error(`lock of ${catalog} expired`)), left)
    try {
      return await work(abort.signal)
    } finally {
      clearTimeout(timer)
      await this.redis.eval(drop, 2, ...keys, token).catch(() => 0)
    }
  }
}
