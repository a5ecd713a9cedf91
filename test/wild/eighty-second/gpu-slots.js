import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from 'redis'

const client = createClient({ url: process.env.REDIS_URL })
client.on('error', (err) => console.error(err))
await client.connect()

const occupancy = async (key) => {
  const [, size] = await client
    .multi()
    .zRemRangeByScore(key, '-inf', Date.now())
    .zCard(key)
    .exec()
  return size
}

export const slots = (pool, { size, ttl = 120_000, every = 150 } = {}) => {
  const key = `slots:${pool}`

  const take = async (signal) => {
    const id = randomUUID()
    for (;;) {
      signal?.throwIfAborted()
      if ((await occupancy(key)) < size) {
        await client.zAdd(key, { score: Date.now() + ttl, value: id })
        return id
      }
      await sleep(every + Math.random() * every)
    }
  }

  const give = (id) => client.zRem(key, id)

  return {
    take,
    give,
    use: async (fn, signal) => {
      const id = await take(signal)
      try {
        return await fn()
      } finally {
        await give(id).catch((err) => console.warn('slot %s stays until it expires: %s', id, err.message))
      }
    },
  }
}

// One model copy fits per card; a ninth request makes the runtime run out of memory.
const cards = slots('a100', { size: 8 })

export const infer = (prompt, signal) =>
  cards.use(async () => {
    const res = await fetch('http://inference.internal/generate', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ prompt, max_tokens: 512 }),
      signal: AbortSignal.timeout(60_000),
    })
    if (!res.ok) throw new Error(`inference: ${res.status}`)
    return res.json()
  }, signal)
