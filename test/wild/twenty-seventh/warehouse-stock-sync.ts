import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { performance } from 'node:perf_hooks'
import type IORedis from 'ioredis'

const LEASE_MS = 30_000
const BEAT_MS = 5_000

const EXTEND = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('pexpire', KEYS[1], ARGV[2])
  end
  return 0
`
const RELEASE = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
  end
  return 0
`

type StockRow = { sku: string; onHand: number }

export interface Deps {
  connection: IORedis
  erp: { pages(warehouseId: string, signal: AbortSignal): AsyncIterable<StockRow[]> }
  inventory: { overwrite(warehouseId: string, rows: StockRow[], signal: AbortSignal): Promise<void> }
  logger: Pick<Console, 'info' | 'warn'>
}

export interface StockJob {
  id: string
  data: { warehouseId: string }
}

/** thrown to the queue, which puts the job back with a delay */
export class DelayJob extends Error {}

export function createStockProcessor({ connection, erp, inventory, logger }: Deps) {
  return async function handle(job: StockJob): Promise<{ rows: number }> {
    const { warehouseId } = job.data
    const key = `wms:stock-sync:${warehouseId}`
    const owner = `${hostname()}/${job.id}/${randomUUID()}`

    let confirmed = performance.now()
    const reply = await connection.set(key, owner, 'PX', LEASE_MS, 'NX')
    if (reply === null) throw new DelayJob(`sync of ${warehouseId} is running elsewhere`)

    const lost = new AbortController()
    const beat = setInterval(() => {
      const asked = performance.now()
      if (asked - confirmed >= LEASE_MS - BEAT_MS) {
        lost.abort(new Error(`no answer from redis, giving up lease on ${warehouseId}`))
        return
      }
      connection.eval(EXTEND, 1, key, owner, LEASE_MS).then(
        (n) => {
          if (n === 1) confirmed = Math.max(confirmed, asked)
          else lost.abort(new Error(`lease on ${warehouseId} was lost`))
        },
        (err) => logger.warn('lease renewal failed, next beat will try again', err),
      )
    }, BEAT_MS)

    let rows = 0
    try {
      for await (const page of erp.pages(warehouseId, lost.signal)) {
        lost.signal.throwIfAborted()
        await inventory.overwrite(warehouseId, page, lost.signal)
        rows += page.length
      }
      lost.signal.throwIfAborted()
      logger.info(`synced ${rows} rows of ${warehouseId}`)
      return { rows }
    } finally {
      clearInterval(beat)
      await connection
        .eval(RELEASE, 1, key, owner)
        .catch((err) => logger.warn(`release of ${key} failed`, err))
    }
  }
}
