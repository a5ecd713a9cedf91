import { randomUUID } from 'node:crypto'
import { createClient } from 'redis'

const client = createClient({ url: process.env.REDIS_URL ?? 'redis://localhost:6379' })
client.on('error', (e) => console.error('redis', e))

async function getClient() {
  if (!client.isOpen) await client.connect()
  return client
}

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`

export async function withWalletLock<T>(walletId: string, fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const redis = await getClient()
  const key = `wallet:${walletId}:lock`
  const token = randomUUID()
  const ttl = 10_000
  const giveUp = Date.now() + 5_000

  let asked = Date.now()
  while ((await redis.set(key, token, { NX: true, PX: ttl })) !== 'OK') {
    if (Date.now() > giveUp) throw new Error(`wallet ${walletId} is busy`)
    await new Promise((r) => setTimeout(r, 20 + Math.random() * 60))
    asked = Date.now()
  }

  const signal = AbortSignal.timeout(Math.max(0, asked + ttl - 200 - Date.now()))
  try {
    return fn(signal)
  } finally {
    await redis.eval(RELEASE, { keys: [key], arguments: [token] })
  }
}
