import { randomUUID } from 'node:crypto'
import Redis from 'ioredis'

const url = process.env.REDIS_URL ?? 'redis://localhost:6379'
const redis = new Redis(url)
const sub = new Redis(url)

const TTL = 10_000

// wakes the waiters up, so nobody has to poll
const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  redis.call('del', KEYS[1])
  redis.call('publish', KEYS[1], 'free')
  return 1
end
return 0`

function nextRelease(key: string, timeout: number): Promise<boolean> {
  return new Promise((resolve) => {
    const done = (woken: boolean) => {
      clearTimeout(timer)
      sub.off('message', onMessage)
      resolve(woken)
    }
    const onMessage = (channel: string) => {
      if (channel === key) done(true)
    }
    const timer = setTimeout(() => done(false), timeout)
    sub.on('message', onMessage)
    sub.subscribe(key).catch(() => done(false))
  })
}

export async function lock(name: string, waitMs = 15_000): Promise<{ key: string; token: string }> {
  const key = `nlock:${name}`
  const token = randomUUID()

  if ((await redis.set(key, token, 'PX', TTL, 'NX')) === 'OK') return { key, token }

  const woken = await nextRelease(key, waitMs)
  if (!woken) throw new Error(`${name}: lock timeout`)

  // it is free now, take it
  await redis.set(key, token, 'PX', TTL)
  return { key, token }
}

export async function unlock(l: { key: string; token: string }) {
  await redis.eval(RELEASE, 1, l.key, l.token)
}
