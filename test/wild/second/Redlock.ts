import { randomBytes } from 'node:crypto'
import type { Redis } from 'ioredis'

export interface RedlockConfig {
  retryCount: number
  retryDelay: number
  retryJitter: number
  driftFactor: number
  nodeTimeout: number
}

export class ExecutionError extends Error {
  constructor(message: string, readonly votes = 0) {
    super(message)
    this.name = 'ExecutionError'
  }
}

export interface Acquired {
  readonly resource: string
  readonly value: string
  readonly expiration: number
}

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`

const EXTEND = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("pexpire", KEYS[1], ARGV[2])
else
  return 0
end`

export class Redlock {
  private readonly cfg: RedlockConfig
  private readonly quorum: number

  constructor(private readonly nodes: Redis[], cfg: Partial<RedlockConfig> = {}) {
    if (nodes.length === 0) throw new Error('at least one node is needed')
    this.quorum = Math.floor(nodes.length / 2) + 1
    this.cfg = { retryCount: 10, retryDelay: 200, retryJitter: 200, driftFactor: 0.01, nodeTimeout: 200, ...cfg }
  }

  async acquire(resource: string, ttl: number): Promise<Acquired> {
    let votes = 0
    for (let i = 0; i <= this.cfg.retryCount; i++) {
      const value = randomBytes(16).toString('hex')
      const start = Date.now()
      votes = await this.poll((n) => n.set(resource, value, 'PX', ttl, 'NX').then((r) => r === 'OK'))
      const expiration = start + ttl - this.drift(ttl)
      if (votes >= this.quorum && Date.now() < expiration) {
        return { resource, value, expiration }
      }
      await this.clear(resource, value)
      if (i < this.cfg.retryCount) {
        await new Promise((r) => setTimeout(r, this.cfg.retryDelay + Math.random() * this.cfg.retryJitter))
      }
    }
    throw new ExecutionError(`no majority for ${resource}`, votes)
  }

  async extend(lock: Acquired, ttl: number): Promise<Acquired> {
    if (Date.now() >= lock.expiration) throw new ExecutionError(`${lock.resource} is already expired`)
    const start = Date.now()
    const votes = await this.poll((n) => n.eval(EXTEND, 1, lock.resource, lock.value, ttl).then((r) => r === 1))
    const expiration = start + ttl - this.drift(ttl)
    if (votes >= this.quorum && Date.now() < expiration) return { ...lock, expiration }
    await this.clear(lock.resource, lock.value)
    throw new ExecutionError(`${lock.resource} could not be extended`, votes)
  }

  async release(lock: Acquired): Promise<void> {
    const votes = await this.clear(lock.resource, lock.value)
    if (votes < this.quorum) throw new ExecutionError(`${lock.resource} was not released everywhere`, votes)
  }

  private clear(resource: string, value: string) {
    return this.poll((n) => n.eval(UNLOCK, 1, resource, value).then((r) => r === 1))
  }

  private drift(ttl: number) {
    return Math.round(this.cfg.driftFactor * ttl) + 2
  }

  /** asks every node at the same time, a slow or broken node is a "no" */
  private async poll(ask: (n: Redis) => Promise<boolean>): Promise<number> {
    const answers = await Promise.all(
      this.nodes.map(
        (n) =>
          new Promise<boolean>((resolve) => {
            const t = setTimeout(() => resolve(false), this.cfg.nodeTimeout)
            ask(n)
              .then(resolve, () => resolve(false))
              .finally(() => clearTimeout(t))
          }),
      ),
    )
    return answers.filter(Boolean).length
  }
}
