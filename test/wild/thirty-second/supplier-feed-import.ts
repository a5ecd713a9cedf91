import { Redis } from 'ioredis'
import { Mutex, TimeoutError } from 'redis-semaphore'

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', { commandTimeout: 3_000 })
redis.on('error', (err) => console.error('redis', err.message))

const LOCK_TIMEOUT_MS = 120_000
const IMPORT_BUDGET_MS = 90_000

export interface Row {
  sku: string
  stock: number
  priceCents: number
}

export interface Catalog {
  revision(feedId: string): Promise<number>
  /** One transaction that also raises the revision. False when the feed's revision is not `ifRevision` any more. */
  replaceRows(feedId: string, rows: Row[], opts: { ifRevision: number; signal: AbortSignal }): Promise<boolean>
}

function parse(csv: string): Row[] {
  return csv
    .split(/\r?\n/)
    .slice(1)
    .filter((line) => line.trim() !== '')
    .map((line) => {
      const [sku, stock, price] = line.split(';')
      if (!sku || stock === undefined || price === undefined) throw new Error(`malformed line: ${line}`)
      return { sku, stock: Number(stock), priceCents: Math.round(Number(price) * 100) }
    })
}

export async function importFeed(feedId: string, url: string, catalog: Catalog): Promise<number | 'busy'> {
  // Imports are limited in time, so the lock is not refreshed.
  const mutex = new Mutex(redis, `feed-import:${feedId}`, {
    lockTimeout: LOCK_TIMEOUT_MS,
    acquireTimeout: 5_000,
    retryInterval: 250,
    refreshInterval: 0,
  })

  try {
    await mutex.acquire()
  } catch (err) {
    if (err instanceof TimeoutError) return 'busy'
    throw err
  }

  try {
    const signal = AbortSignal.timeout(IMPORT_BUDGET_MS)
    const ifRevision = await catalog.revision(feedId)

    const res = await fetch(url, { signal })
    if (!res.ok) throw new Error(`feed ${feedId}: ${res.status}`)
    const rows = parse(await res.text())
    if (rows.length === 0) throw new Error(`feed ${feedId} is empty`)

    const replaced = await catalog.replaceRows(feedId, rows, { ifRevision, signal })
    if (!replaced) throw new Error(`feed ${feedId} was changed by somebody else`)
    return rows.length
  } finally {
    await mutex.release().catch((err) => console.warn(`release of ${feedId} failed`, err))
  }
}
