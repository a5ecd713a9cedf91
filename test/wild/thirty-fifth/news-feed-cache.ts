import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Redis } from '@upstash/redis'

export interface Story {
  id: string
  headline: string
  publishedAt: string
}

export interface Feed {
  stories: Story[]
  builtAt: number
}

export type BuildFeed = (topic: string, opts: { signal: AbortSignal }) => Promise<Story[]>

export class FeedUnavailable extends Error {}

const FRESH_SECONDS = 90
const LOCK_MS = 15_000
const BUILD_MS = 8_000
const WAIT_MS = 20_000

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`

const STORE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  redis.call('set', KEYS[2], ARGV[2], 'EX', ARGV[3])
  return 1
end
return 0`

const feedKey = (topic: string) => `feed:{${topic}}`
const lockKey = (topic: string) => `feed:{${topic}}:building`

async function acquire(redis: Redis, topic: string): Promise<string | null> {
  const token = randomUUID()
  const reply = await redis.set(lockKey(topic), token, { nx: true, px: LOCK_MS })
  return reply === 'OK' ? token : null
}

async function release(redis: Redis, topic: string, token: string): Promise<void> {
  try {
    await redis.eval(UNLOCK, [lockKey(topic)], [token])
  } catch (err) {
    console.warn(`build lock of ${topic} will expire by itself`, err)
  }
}

/**
 * Reads a feed through the cache. When it has to be built, one instance does
 * it and the others wait for the result.
 */
export async function getFeed(redis: Redis, topic: string, build: BuildFeed): Promise<Feed> {
  const giveUpAt = performance.now() + WAIT_MS

  for (;;) {
    const cached = await redis.get<Feed>(feedKey(topic))
    if (cached) return cached

    const token = await acquire(redis, topic)
    if (token) {
      try {
        // somebody may have finished between our look and our lock
        const again = await redis.get<Feed>(feedKey(topic))
        if (again) return again

        const stories = await build(topic, { signal: AbortSignal.timeout(BUILD_MS) })
        const feed: Feed = { stories, builtAt: Date.now() }
        const stored = await redis.eval(
          STORE,
          [lockKey(topic), feedKey(topic)],
          [token, JSON.stringify(feed), String(FRESH_SECONDS)],
        )
        if (stored !== 1) console.warn(`feed ${topic} built too slowly, not cached`)
        return feed
      } finally {
        await release(redis, topic, token)
      }
    }

    if (performance.now() >= giveUpAt) throw new FeedUnavailable(topic)
    await sleep(150 + Math.random() * 150)
  }
}
