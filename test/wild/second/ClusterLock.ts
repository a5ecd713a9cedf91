import { randomUUID } from 'node:crypto'
import Redis from 'ioredis'

const NODES = (
  process.env.LOCK_NODES ?? 'redis://lock-0:6379,redis://lock-1:6379,redis://lock-2:6379,redis://lock-3:6379'
).split(',')

const UNLOCK = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`

export interface Grant {
  key: string
  token: string
  validUntil: number
}

export class ClusterLock {
  private readonly nodes: Redis[]
  private readonly needed: number

  constructor(nodes: Redis[] = NODES.map((u) => new Redis(u, { commandTimeout: 250, maxRetriesPerRequest: 0 }))) {
    this.nodes = nodes
    nodes.forEach((n) => n.on('error', () => undefined))
    // more than half of the nodes have to agree
    this.needed = Math.ceil(nodes.length / 2)
  }

  async acquire(name: string, ttl = 10_000, attempts = 10): Promise<Grant> {
    const key = `cl:${name}`
    for (let i = 0; i < attempts; i++) {
      const token = randomUUID()
      const start = Date.now()
      const votes = await Promise.all(
        this.nodes.map((n) =>
          n.set(key, token, 'PX', ttl, 'NX').then(
            (r) => (r === 'OK' ? 1 : 0),
            () => 0,
          ),
        ),
      )
      const validUntil = start + ttl - Math.ceil(ttl * 0.01) - 2
      if (votes.reduce<number>((a, b) => a + b, 0) >= this.needed && Date.now() < validUntil) {
        return { key, token, validUntil }
      }
      await this.release({ key, token })
      await new Promise((r) => setTimeout(r, 50 + Math.random() * 250))
    }
    throw new Error(`${name}: not enough votes`)
  }

  async release({ key, token }: Pick<Grant, 'key' | 'token'>): Promise<void> {
    await Promise.allSettled(this.nodes.map((n) => n.eval(UNLOCK, 1, key, token)))
  }
}
