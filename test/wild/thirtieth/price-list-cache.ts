import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { createClient } from 'redis'

type Client = ReturnType<typeof createClient>

export interface PriceList {
  market: string
  currency: string
  prices: Record<string, number>
}

export interface ErpApi {
  fetchPriceList(market: string, signal: AbortSignal): Promise<PriceList>
}

const CACHE_SECONDS = 15 * 60
const LOCK_MS = 60_000
const ERP_TIMEOUT_MS = 15_000
const WAIT_MS = 25_000

const UNLOCK = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end`

// only the current rebuilder may fill the cache
const STORE = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[2], 'EX', ARGV[3])
return 1`

export class PriceListCache {
  private readonly inflight = new Map<string, Promise<PriceList>>()

  constructor(private readonly redis: Client, private readonly erp: ErpApi) {}

  async get(market: string): Promise<PriceList> {
    const cached = await this.read(market)
    if (cached) return cached

    // one rebuild per process, Redis sorts it out between processes
    let pending = this.inflight.get(market)
    if (!pending) {
      pending = this.rebuild(market).finally(() => this.inflight.delete(market))
      this.inflight.set(market, pending)
    }
    return pending
  }

  private async rebuild(market: string): Promise<PriceList> {
    const lockKey = `pricelist:{${market}}:rebuild`
    const giveUpAt = Date.now() + WAIT_MS

    for (;;) {
      const token = randomBytes(16).toString('hex')
      if (await this.tryLock(lockKey, token)) {
        try {
          const filled = await this.read(market)
          if (filled) return filled

          const fresh = await this.erp.fetchPriceList(market, AbortSignal.timeout(ERP_TIMEOUT_MS))
          const stored = await this.redis.eval(STORE, {
            keys: [lockKey, dataKey(market)],
            arguments: [token, JSON.stringify(fresh), String(CACHE_SECONDS)],
          })
          if (stored !== 1) console.warn(`price list ${market}: too slow, not cached`)
          return fresh
        } finally {
          await this.unlock(lockKey, token)
        }
      }

      await sleep(150 + Math.random() * 250)
      const filled = await this.read(market)
      if (filled) return filled
      if (Date.now() > giveUpAt) throw new Error(`price list ${market}: rebuild still running`)
    }
  }

  private async tryLock(key: string, token: string): Promise<boolean> {
    const sentAt = Date.now()
    let reply: unknown
    try {
      reply = await this.redis.set(key, token, { NX: true, PX: LOCK_MS })
    } catch (err) {
      await this.unlock(key, token)
      throw err
    }
    if (reply !== 'OK') return false
    // a slow reply eats into the lease; keep enough for the ERP round trip
    if (Date.now() - sentAt < LOCK_MS - 2 * ERP_TIMEOUT_MS) return true
    await this.unlock(key, token)
    return false
  }

  private async unlock(key: string, token: string): Promise<void> {
    try {
      await this.redis.eval(UNLOCK, { keys: [key], arguments: [token] })
    } catch (err) {
      console.warn(`price list: unlock of ${key} failed, expires by itself`, err)
    }
  }

  private async read(market: string): Promise<PriceList | null> {
    const raw = await this.redis.get(dataKey(market))
    return typeof raw === 'string' ? (JSON.parse(raw) as PriceList) : null
  }
}

function dataKey(market: string): string {
  return `pricelist:{${market}}`
}
