import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'

const RELEASE = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`

export interface RegionLock {
  readonly name: string
  readonly token: string
  readonly validUntil: number
}

export class RegionQuorum {
  private readonly regions: Redis[]

  constructor(urls: string[] = (process.env.REGION_REDIS ?? '').split(',').filter(Boolean)) {
    this.regions = urls.map((url) => new Redis(url, { maxRetriesPerRequest: 0, commandTimeout: 200 }))
    for (const region of this.regions) region.on('error', () => {})
  }

  async lock(name: string, ttlMs = 7_000): Promise<RegionLock | null> {
    const token = randomUUID()
    const from = performance.now()
    const results = await Promise.allSettled(this.regions.map((r) => r.set(name, token, 'PX', ttlMs, 'NX')))

    // a region that is down has no say
    const answers = results.filter((r) => r.status === 'fulfilled')
    const granted = answers.filter((r) => r.value === 'OK').length
    const validUntil = from + ttlMs - Math.ceil(ttlMs * 0.01) - 2

    if (granted > answers.length / 2 && performance.now() < validUntil) {
      return { name, token, validUntil }
    }
    await this.unlock({ name, token })
    return null
  }

  async unlock({ name, token }: Pick<RegionLock, 'name' | 'token'>): Promise<void> {
    await Promise.allSettled(this.regions.map((r) => r.eval(RELEASE, 1, name, token)))
  }
}
