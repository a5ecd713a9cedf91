import { Redis } from 'iovalkey'

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0`

export interface TenantLock {
  tenant: string
  /** on the clock of performance.now() */
  deadline: number
}

export class TenantMutex {
  private readonly valkey: Redis
  private readonly owner: string

  constructor(
    url = process.env.VALKEY_URL ?? 'redis://localhost:6379',
    service = process.env.SERVICE_NAME ?? 'tenant-api',
  ) {
    this.valkey = new Redis(url, { maxRetriesPerRequest: 2 })
    this.owner = `${service}@${process.env.npm_package_version ?? '0'}`
  }

  async acquire(tenant: string, ttlMs = 10_000): Promise<TenantLock | null> {
    const from = performance.now()
    const reply = await this.valkey.set(this.key(tenant), this.owner, 'PX', ttlMs, 'NX')
    if (reply !== 'OK') return null
    const lock = { tenant, deadline: from + ttlMs * 0.98 - 5 }
    if (performance.now() < lock.deadline) return lock
    await this.release(lock)
    return null
  }

  async release(lock: TenantLock): Promise<boolean> {
    return (await this.valkey.eval(RELEASE, 1, this.key(lock.tenant), this.owner)) === 1
  }

  private key(tenant: string): string {
    return `tenant:{${tenant}}:mutex`
  }
}
