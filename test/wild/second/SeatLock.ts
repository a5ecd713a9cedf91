import { randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis'

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`

export class SeatLockError extends Error {}

export class SeatLock {
  constructor(
    private readonly masters: Redis[],
    private readonly nodeTimeoutMs = 150,
  ) {}

  async lock(seat: string, ttl = 12_000): Promise<{ seat: string; token: string; goodUntil: number }> {
    for (let attempt = 0; attempt < 15; attempt++) {
      const token = randomUUID()
      const start = Date.now()
      const replies = await this.all((m) => m.set(`seat:${seat}`, token, 'PX', ttl, 'NX'))
      const ok = replies.filter((r) => r === 'OK').length
      const goodUntil = start + ttl - Math.round(ttl / 100) - 2
      if (ok > this.masters.length / 2 && Date.now() < goodUntil) return { seat, token, goodUntil }

      await this.rollback(seat)
      await new Promise((r) => setTimeout(r, 40 + Math.random() * 160))
    }
    throw new SeatLockError(`seat ${seat} is taken`)
  }

  async unlock(l: { seat: string; token: string }): Promise<void> {
    await this.all((m) => m.eval(UNLOCK, 1, `seat:${l.seat}`, l.token))
  }

  // take back the votes of a round that failed
  private async rollback(seat: string) {
    await this.all((m) => m.del(`seat:${seat}`))
  }

  private all(fn: (m: Redis) => Promise<unknown>): Promise<unknown[]> {
    return Promise.all(
      this.masters.map(async (m) => {
        let t: NodeJS.Timeout | undefined
        try {
          return await Promise.race([
            fn(m),
            new Promise((_, rej) => {
              t = setTimeout(() => rej(new Error('slow master')), this.nodeTimeoutMs)
            }),
          ])
        } catch {
          return undefined
        } finally {
          clearTimeout(t)
        }
      }),
    )
  }
}
