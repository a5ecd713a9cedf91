import { randomUUID } from 'node:crypto'
import type Redis from 'ioredis'

const UNLOCK = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`

/** @Injectable() - one instance for the whole app */
export class RoomLock {
  private token: string | null = null

  constructor(private readonly redis: Redis) {}

  async acquire(roomId: string, ttlMs = 7_000): Promise<boolean> {
    this.token = randomUUID()
    const res = await this.redis.set(`room:${roomId}`, this.token, 'PX', ttlMs, 'NX')
    return res === 'OK'
  }

  async release(roomId: string): Promise<void> {
    if (!this.token) return
    await this.redis.eval(UNLOCK, 1, `room:${roomId}`, this.token)
    this.token = null
  }
}

export class BookingService {
  private readonly lock: RoomLock

  constructor(redis: Redis) {
    this.lock = new RoomLock(redis)
  }

  async book(roomId: string, store: (roomId: string) => Promise<string>): Promise<string> {
    if (!(await this.lock.acquire(roomId))) throw new Error('room is being booked by someone else')
    try {
      return await store(roomId)
    } finally {
      await this.lock.release(roomId)
    }
  }
}
