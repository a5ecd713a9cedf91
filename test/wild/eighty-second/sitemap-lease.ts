import { randomUUID } from 'node:crypto'
import { rename, writeFile } from 'node:fs/promises'
import type { Redis } from 'ioredis'

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`

const RENEW = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end
return 0`

export class LeaseLost extends Error {
  constructor(readonly lease: string) {
    super(`lease ${lease} is gone`)
    this.name = 'LeaseLost'
  }
}

type Work<T> = (signal: AbortSignal, token: string) => Promise<T>

export const leaseOn =
  (redis: Redis) =>
  ({ ttl = 15_000, margin = 3_000, prefix = 'lease:' } = {}) =>
  async <T>(name: string, work: Work<T>): Promise<T | undefined> => {
    const key = prefix + name
    const token = randomUUID()
    const lost = new AbortController()
    const drop = () => lost.abort(new LeaseLost(name))

    let goodUntil = Date.now() + ttl
    if ((await redis.set(key, token, 'PX', ttl, 'NX')) !== 'OK') return undefined

    const beat = setInterval(() => {
      const asked = Date.now()
      redis
        .eval(RENEW, 1, key, token, ttl)
        .then((n) => (n === 1 ? (goodUntil = asked + ttl) : drop()))
        .catch(() => {})
    }, ttl / 3)

    const watch = setInterval(() => {
      if (Date.now() > goodUntil - margin) drop()
    }, 250)

    try {
      if (Date.now() > goodUntil - margin) drop()
      lost.signal.throwIfAborted()
      const out = await work(lost.signal, token)
      lost.signal.throwIfAborted()
      return out
    } finally {
      clearInterval(beat)
      clearInterval(watch)
      await redis.eval(RELEASE, 1, key, token).catch(() => 0)
    }
  }

type Shard = { id: number; urls(): AsyncIterable<string> }

export const rebuildSitemap = (redis: Redis, dir: string) => {
  const lease = leaseOn(redis)({ ttl: 30_000, margin: 5_000 })

  return (shards: Shard[]) =>
    lease('sitemap', async (signal, token) => {
      for (const shard of shards) {
        const lines: string[] = []
        for await (const url of shard.urls()) {
          signal.throwIfAborted()
          lines.push(`<url><loc>${url}</loc></url>`)
        }
        const draft = `${dir}/.sitemap-${shard.id}.${token}`
        await writeFile(draft, `<urlset>${lines.join('')}</urlset>`, { signal })
        signal.throwIfAborted()
        await rename(draft, `${dir}/sitemap-${shard.id}.xml`)
      }
      return shards.length
    })
}
