import { createClient } from 'redis'
import { randomUUID } from 'node:crypto'

const client = createClient({ url: process.env.REDIS_URL })
client.on('error', console.error)
const ready = client.connect()

const RECOMPUTE_LOCK_MS = 15_000

/** Dogpile protection: one request computes the dashboard, the others wait for the result. */
export async function getDashboard(accountId, compute) {
  await ready
  const cacheKey = `dash:${accountId}`
  const lockKey = `dash:${accountId}:computing`
  const token = randomUUID()

  const cached = await client.get(cacheKey)
  if (cached) return JSON.parse(cached)

  try {
    const got = await client.set(lockKey, token, { condition: 'NX', expiration: { type: 'PX', value: RECOMPUTE_LOCK_MS } })
    if (got === 'OK') {
      const value = await compute(accountId)
      await client.set(cacheKey, JSON.stringify(value), { EX: 60 })
      return value
    }

    for (let i = 0; i < 20; i++) {
      await new Promise((r) => setTimeout(r, 100))
      const v = await client.get(cacheKey)
      if (v) return JSON.parse(v)
    }
    throw new Error('dashboard is not ready yet')
  } finally {
    await client.del(lockKey)
  }
}
