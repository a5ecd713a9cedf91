import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import Redis from 'ioredis'

export interface DnsRecord {
  name: string
  type: 'A' | 'AAAA' | 'CNAME' | 'TXT' | 'MX'
  ttl: number
  value: string
}

export interface Database {
  query(sql: string, params: unknown[]): Promise<{ rows: any[]; rowCount: number | null }>
}

export class ZoneBusy extends Error {}
export class StaleEditor extends Error {}

// Lock and fence number are handed out in one step, so numbers follow the order of the holders.
const ACQUIRE = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0`

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`

const LOCK_MS = 10_000
const WAIT_MS = 15_000

export function createDnsRedis(): Redis {
  const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379')
  redis.on('error', (err) => console.error('dns redis', err.message))
  return redis
}

export class DnsZoneEditor {
  private readonly redis: Redis
  private readonly db: Database

  constructor(redis: Redis, db: Database) {
    this.redis = redis
    this.db = db
  }

  /** Applies `change` to the records of the zone and returns the new serial. */
  async edit(zone: string, change: (records: DnsRecord[]) => DnsRecord[]): Promise<number> {
    const token = randomUUID()
    const fence = await this.acquire(zone, token)
    try {
      // Claiming the row with our fence and reading it is a single statement: from here on
      // nobody with a lower number can write, and neither can we once a higher one claims it.
      const claimed = await this.db.query(
        `UPDATE dns_zones SET fence = $2
          WHERE name = $1 AND fence < $2
          RETURNING records, serial`,
        [zone, fence],
      )
      if (claimed.rows.length === 0) {
        throw new StaleEditor(`zone ${zone} does not exist or is past fence ${fence}`)
      }

      const serial = Number(claimed.rows[0].serial) + 1
      const records = change(claimed.rows[0].records as DnsRecord[])
      const saved = await this.db.query(
        `UPDATE dns_zones SET records = $3, serial = $4
          WHERE name = $1 AND fence = $2`,
        [zone, fence, JSON.stringify(records), serial],
      )
      if (saved.rowCount !== 1) throw new StaleEditor(`zone ${zone} was taken over from fence ${fence}`)
      return serial
    } finally {
      await this.redis
        .eval(RELEASE, 1, this.lockKey(zone), token)
        .catch((err) => console.warn(`zone ${zone} stays locked until its ttl`, err))
    }
  }

  private async acquire(zone: string, token: string): Promise<number> {
    const giveUpAt = performance.now() + WAIT_MS
    for (;;) {
      const fence = Number(
        await this.redis.eval(ACQUIRE, 2, this.lockKey(zone), `dns:{${zone}}:fence`, token, LOCK_MS),
      )
      if (fence > 0) return fence
      if (performance.now() >= giveUpAt) throw new ZoneBusy(`zone ${zone} is being edited`)
      await sleep(150 + Math.random() * 150)
    }
  }

  private lockKey(zone: string): string {
    return `dns:{${zone}}:lock`
  }
}
