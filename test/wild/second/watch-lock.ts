import { randomUUID } from 'node:crypto'
import { createClient, WatchError } from 'redis'

const redis = createClient({ url: process.env.REDIS_URL ?? 'redis://localhost:6379' })
redis.on('error', (e) => console.error(e))

async function db() {
  if (!redis.isOpen) await redis.connect()
  return redis
}

export interface TicketLock {
  key: string
  token: string
  validUntil: number
}

export async function lockTicket(ticketId: number, ttlMs = 9000): Promise<TicketLock | undefined> {
  const c = await db()
  const key = `ticket:${ticketId}:lock`
  const token = randomUUID()
  const validUntil = Date.now() + ttlMs - 100
  const ok = await c.set(key, token, { NX: true, PX: ttlMs })
  return ok === 'OK' ? { key, token, validUntil } : undefined
}

/** Optimistic compare-and-delete, no Lua needed. */
export async function unlockTicket({ key, token }: TicketLock): Promise<boolean> {
  const c = await db()
  if ((await c.get(key)) !== token) return false
  await c.watch(key)
  try {
    const [deleted] = await c.multi().del(key).exec()
    return Number(deleted) === 1
  } catch (err) {
    if (err instanceof WatchError) return false
    throw err
  }
}
