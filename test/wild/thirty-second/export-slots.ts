import { randomUUID } from 'node:crypto'
import { rename, rm, writeFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Redis } from 'ioredis'

const LEASE_MS = 120_000
const MARGIN_MS = 15_000

// Every running export is a member of the sorted set, scored with the time its lease ends.
const TAKE = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local mine = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not mine and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
`

export class NoSlotError extends Error {}

export class ExportSlots {
  constructor(
    private readonly redis: Redis,
    private readonly limit = 4,
    private readonly key = 'semaphore:exports',
  ) {}

  /** Runs `job` in one of the slots. The job has to stop when its signal aborts. */
  async run<T>(waitMs: number, job: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const slot = randomUUID()
    const waitUntil = performance.now() + waitMs
    let sentAt = performance.now()
    while ((await this.redis.eval(TAKE, 1, this.key, slot, this.limit, LEASE_MS)) !== 1) {
      if (performance.now() >= waitUntil) throw new NoSlotError('all export slots are taken')
      await sleep(250 + Math.floor(Math.random() * 250))
      sentAt = performance.now()
    }

    try {
      const budget = LEASE_MS - MARGIN_MS - (performance.now() - sentAt)
      if (budget <= 0) throw new NoSlotError('slot was granted too late')
      return await job(AbortSignal.timeout(Math.floor(budget)))
    } finally {
      await this.redis.zrem(this.key, slot).catch((err) => {
        console.warn('export slot not given back, it will lapse', err)
      })
    }
  }
}

export async function exportOrders(slots: ExportSlots, shopId: string, target: string): Promise<number> {
  return slots.run(30_000, async (signal) => {
    const res = await fetch(`${process.env.ORDERS_API}/shops/${shopId}/orders.csv`, { signal })
    if (!res.ok) throw new Error(`orders api: ${res.status}`)
    const body = Buffer.from(await res.arrayBuffer())

    const partial = `${target}.${randomUUID()}.part`
    try {
      await writeFile(partial, body, { signal })
      signal.throwIfAborted()
      await rename(partial, target)
    } catch (err) {
      await rm(partial, { force: true })
      throw err
    }
    return body.byteLength
  })
}
