import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import Redis from 'ioredis'

const RELEASE_SCRIPT = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  else
    return 0
  end
`

export class LockTimeoutError extends Error {
  constructor(key: string) {
    super(`could not lock ${key} in time`)
    this.name = 'LockTimeoutError'
  }
}

export interface LockOptions {
  ttlMs?: number
  waitMs?: number
}

export function createRedis(): Redis {
  const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379')
  redis.on('error', (err) => console.error('[redis]', err.message))
  return redis
}

/**
 * Runs `fn` while holding a lock on `key`. The signal fires two seconds
 * before the lock can expire.
 */
export async function withLock<T>(
  redis: Redis,
  key: string,
  fn: (signal: AbortSignal) => Promise<T>,
  { ttlMs = 10_000, waitMs = 5_000 }: LockOptions = {},
): Promise<T> {
  const lockKey = `lock:${key}`
  const token = randomUUID()
  const giveUpAt = Date.now() + waitMs

  for (;;) {
    const signal = AbortSignal.timeout(ttlMs - 2_000)
    const acquired = await redis.set(lockKey, token, 'PX', ttlMs, 'NX')
    if (acquired === 'OK') {
      try {
        return fn(signal)
      } finally {
        await redis.eval(RELEASE_SCRIPT, 1, lockKey, token).catch((err) => {
          console.warn(`[lock] ${lockKey} not released, expires in ${ttlMs}ms`, err)
        })
      }
    }

    if (Date.now() >= giveUpAt) throw new LockTimeoutError(lockKey)
    await sleep(50 + Math.random() * 100)
  }
}

export interface Series {
  prefix: string
  lastNumber: number
}

export interface InvoiceRepo {
  loadSeries(companyId: string, year: number, opts: { signal: AbortSignal }): Promise<Series>
  saveSeries(companyId: string, year: number, series: Series, opts: { signal: AbortSignal }): Promise<void>
}

/** Takes the next number of the series; no two invoices of a company share one. */
export async function nextInvoiceNumber(
  redis: Redis,
  repo: InvoiceRepo,
  companyId: string,
  year = new Date().getFullYear(),
): Promise<string> {
  return withLock(redis, `invoice-series:${companyId}:${year}`, async (signal) => {
    const series = await repo.loadSeries(companyId, year, { signal })
    const lastNumber = series.lastNumber + 1
    signal.throwIfAborted()
    await repo.saveSeries(companyId, year, { ...series, lastNumber }, { signal })
    return `${series.prefix}${year}-${String(lastNumber).padStart(5, '0')}`
  })
}
