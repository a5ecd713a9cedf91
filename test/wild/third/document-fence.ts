import { randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis'

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`

const SAVE = `
local last = tonumber(redis.call('HGET', KEYS[1], 'fence') or '-1')
if tonumber(ARGV[1]) < last then return 0 end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'body', ARGV[2])
return 1`

export interface DocumentLease {
  readonly id: string
  readonly token: string
  readonly fence: number
}

/** Saves of a lease that is over are refused by the number of the lease. */
export class DocumentLeases {
  private fence = 0

  constructor(private readonly redis: Redis) {}

  async acquire(id: string, ttlMs = 8_000): Promise<DocumentLease | null> {
    const token = randomUUID()
    const reply = await this.redis.set(`document:${id}:lease`, token, 'PX', ttlMs, 'NX')
    if (reply !== 'OK') return null
    this.fence += 1
    return { id, token, fence: this.fence }
  }

  async save(lease: DocumentLease, body: string): Promise<boolean> {
    return (await this.redis.eval(SAVE, 1, `document:${lease.id}`, lease.fence, body)) === 1
  }

  async release(lease: DocumentLease): Promise<void> {
    await this.redis.eval(RELEASE, 1, `document:${lease.id}:lease`, lease.token)
  }
}
