import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { createClient } from 'redis'

const client = createClient({
  url: process.env.REDIS_URL || 'redis://localhost:6379',
  socket: { connectTimeout: 3000 },
})
client.on('error', (err) => console.error('[redis]', err.message))

async function connected() {
  if (!client.isOpen) await client.connect()
  return client
}

export interface SkuLock {
  key: string
  token: string
  /** Date.now() based. Nothing may be written for the sku after this moment. */
  validUntil: number
}

// flips to false the first time a server older than 8.4 answers
let hasDelex = true

const COMPARE_AND_DELETE = `
local v = redis.call('GET', KEYS[1])
if v == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
`

export async function lockSku(sku: string, ttlMs = 8000, waitMs = 3000): Promise<SkuLock | null> {
  const c = await connected()
  const key = `inventory:sku:${sku}:lock`
  const until = Date.now() + waitMs

  do {
    const token = randomBytes(20).toString('hex')
    const asked = Date.now()
    let answer: unknown
    try {
      answer = await c.set(key, token, {
        condition: 'NX',
        expiration: { type: 'PX', value: ttlMs },
      })
    } catch (err) {
      await compareAndDelete(key, token).catch(() => {})
      throw err
    }
    if (answer === 'OK') {
      const validUntil = asked + ttlMs - Math.ceil(ttlMs / 100) - 2
      if (Date.now() < validUntil) return { key, token, validUntil }
      // the answer took longer than the lease
      await compareAndDelete(key, token).catch(() => {})
    }
    await delay(40 + Math.floor(Math.random() * 120))
  } while (Date.now() < until)

  return null
}

/** true = it was still ours */
export async function unlockSku(lock: SkuLock): Promise<boolean> {
  return compareAndDelete(lock.key, lock.token)
}

async function compareAndDelete(key: string, token: string): Promise<boolean> {
  const c = await connected()
  if (hasDelex) {
    try {
      return Number(await c.sendCommand(['DELEX', key, 'IFEQ', token])) === 1
    } catch (err) {
      if (!/unknown command/i.test((err as Error).message)) throw err
      hasDelex = false
    }
  }
  return Number(await c.eval(COMPARE_AND_DELETE, { keys: [key], arguments: [token] })) === 1
}

export async function close() {
  if (client.isOpen) await client.close()
}
