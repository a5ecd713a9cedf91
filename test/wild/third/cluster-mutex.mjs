import { randomUUID } from 'node:crypto'

const RELEASE = 'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0'

/**
 * @param {import('redis').RedisClientType[]} clients one for each master, connected
 */
export function createClusterMutex(clients, { ttl = 10_000, retries = 10, retryDelay = 200 } = {}) {
  const quorum = Math.floor(clients.length / 2) + 1

  async function lock(resource) {
    for (let i = 0; i < retries; i++) {
      const value = randomUUID()
      const start = performance.now()
      const replies = await Promise.all(clients.map((c) => c.set(resource, value, { NX: true, PX: ttl })))
      const votes = replies.filter((reply) => reply === 'OK').length
      const validity = ttl - (performance.now() - start) - (ttl * 0.01 + 2)
      if (votes >= quorum && validity > 0) return { resource, value, validUntil: performance.now() + validity }

      await unlock({ resource, value })
      await new Promise((resolve) => setTimeout(resolve, retryDelay * (0.5 + Math.random())))
    }
    throw new Error(`could not lock ${resource}`)
  }

  async function unlock({ resource, value }) {
    await Promise.allSettled(clients.map((c) => c.eval(RELEASE, { keys: [resource], arguments: [value] })))
  }

  return { lock, unlock }
}
