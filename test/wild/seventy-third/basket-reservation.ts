import { randomUUID } from "node:crypto"
import type Redis from "ioredis"
import type { Pool } from "pg"
import type { Allocator, Allocation } from "./allocator"

const LOCK_ALL = `
for _, k in ipairs(KEYS) do
  local v = redis.call("get", k)
  if v and v ~= ARGV[1] then return k end
end
for _, k in ipairs(KEYS) do
  redis.call("set", k, ARGV[1], "px", ARGV[2])
end
return "OK"
`

const UNLOCK_ALL = `
local n = 0
for _, k in ipairs(KEYS) do
  if redis.call("get", k) == ARGV[1] then n = n + redis.call("del", k) end
end
return n
`

export class SkuBusy extends Error {
  readonly retryable = true
  constructor(readonly key: string) {
    super(`${key} is locked by another reservation`)
  }
}

export class StockMoved extends Error {
  readonly retryable = true
}

type Line = { sku: string; qty: number }
type Outcome = "reserved" | "already-reserved"

/**
 * Popular SKUs used to die of serialization failures on sale days. All SKUs of
 * a basket are now taken in one go before the allocator runs (never one after
 * the other), so we rarely get to the point where the version check says no.
 */
export class BasketReservation {
  constructor(
    private redis: Redis,
    private pg: Pool,
    private allocator: Allocator,
    private holdMs = 8_000,
  ) {}

  async reserve(orderId: string, lines: Line[]): Promise<Outcome> {
    const skus = [...new Set(lines.map((l) => l.sku))].sort()
    return this.withSkus(skus, async () => {
      const { rows } = await this.pg.query(
        "select sku, available, version from stock where sku = any($1)",
        [skus],
      )
      const plan = await this.allocator.plan(lines, rows)
      return this.write(orderId, plan)
    })
  }

  private async withSkus<T>(skus: string[], fn: () => Promise<T>): Promise<T> {
    const keys = skus.map((s) => `{stock}:lock:${s}`)
    const token = randomUUID()
    const answer = await this.redis.eval(LOCK_ALL, keys.length, ...keys, token, this.holdMs)
    if (answer !== "OK") throw new SkuBusy(String(answer))
    try {
      return await fn()
    } finally {
      await this.redis
        .eval(UNLOCK_ALL, keys.length, ...keys, token)
        .catch((e: Error) => console.warn("unlock failed, keys expire in %d ms", this.holdMs, e.message))
    }
  }

  private async write(orderId: string, plan: Allocation[]): Promise<Outcome> {
    const tx = await this.pg.connect()
    try {
      await tx.query("begin")
      const fresh = await tx.query(
        "insert into reservations (order_id, created_at) values ($1, now()) on conflict (order_id) do nothing",
        [orderId],
      )
      if (fresh.rowCount === 0) {
        await tx.query("rollback")
        return "already-reserved"
      }
      // one entry per sku, in sku order
      for (const a of [...plan].sort((x, y) => (x.sku < y.sku ? -1 : 1))) {
        const upd = await tx.query(
          `update stock
              set available = available - $2, version = version + 1
            where sku = $1 and version = $3 and available >= $2`,
          [a.sku, a.qty, a.version],
        )
        if (upd.rowCount !== 1) throw new StockMoved(`stock of ${a.sku} changed`)
        await tx.query("insert into reservation_lines (order_id, sku, qty) values ($1, $2, $3)", [
          orderId,
          a.sku,
          a.qty,
        ])
      }
      await tx.query("commit")
      return "reserved"
    } catch (e) {
      await tx.query("rollback").catch(() => {})
      throw e
    } finally {
      tx.release()
    }
  }
}
