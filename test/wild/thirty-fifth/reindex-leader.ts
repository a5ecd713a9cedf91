import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import Redis from 'ioredis'

const LEADER_KEY = 'search:reindex:leader'
const LEASE_MS = 15_000
const HEARTBEAT_MS = 5_000

const RESIGN = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`

export interface Catalog {
  changedSince(cursor: string, limit: number): Promise<{ docs: object[]; cursor: string }>
}

export class ReindexLeader {
  private readonly id = randomUUID()
  private readonly redis: Redis
  private readonly catalog: Catalog
  private timer: NodeJS.Timeout | undefined
  private term: AbortController | null = null
  private running: Promise<void> = Promise.resolve()
  private beating = false
  private stopping = false

  constructor(catalog: Catalog) {
    this.catalog = catalog
    this.redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', { commandTimeout: 3_000 })
    this.redis.on('error', (err) => console.error('reindex redis:', err.message))
  }

  start(): void {
    this.timer = setInterval(() => void this.beat(), HEARTBEAT_MS)
    void this.beat()
  }

  async stop(): Promise<void> {
    this.stopping = true
    clearInterval(this.timer)
    this.stepDown('shutting down')
    await this.running
    await this.redis.eval(RESIGN, 1, LEADER_KEY, this.id).catch(() => {})
    this.redis.disconnect()
  }

  private async beat(): Promise<void> {
    if (this.beating || this.stopping) return
    this.beating = true
    try {
      if (this.term) {
        const extended = await this.redis.pexpire(LEADER_KEY, LEASE_MS)
        if (extended !== 1) this.stepDown('lease is gone')
      } else {
        await this.running
        const won = await this.redis.set(LEADER_KEY, this.id, 'PX', LEASE_MS, 'NX')
        if (won === 'OK' && !this.stopping) this.lead()
      }
    } catch (err) {
      this.stepDown(`heartbeat failed: ${(err as Error).message}`)
    } finally {
      this.beating = false
    }
  }

  private lead(): void {
    console.log(`${this.id} leads the reindexing`)
    const term = new AbortController()
    this.term = term
    this.running = this.reindex(term.signal)
  }

  private stepDown(reason: string): void {
    if (!this.term) return
    console.log(`${this.id} steps down, ${reason}`)
    this.term.abort()
    this.term = null
  }

  private async reindex(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        const from = (await this.redis.get('search:reindex:cursor')) ?? '0'
        const { docs, cursor } = await this.catalog.changedSince(from, 500)
        if (docs.length > 0) {
          signal.throwIfAborted()
          const res = await fetch(`${process.env.SEARCH_URL}/products/_bulk`, {
            method: 'POST',
            headers: { 'content-type': 'application/x-ndjson' },
            body: docs.map((d) => JSON.stringify(d)).join('\n') + '\n',
            signal,
          })
          if (!res.ok) throw new Error(`bulk index answered ${res.status}`)
          signal.throwIfAborted()
          await this.redis.set('search:reindex:cursor', cursor)
          continue
        }
      } catch (err) {
        if (!signal.aborted) console.error('reindex pass failed', err)
      }
      await sleep(10_000, undefined, { signal }).catch(() => {})
    }
  }
}
