import { randomUUID } from 'node:crypto'
import Redis from 'ioredis'

export const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379')

const LOCK_TTL = 30 // seconds

const unlock = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`

interface Req {
  params: { orderId: string }
  body: { amount: number }
}
interface Res {
  status(code: number): Res
  json(body: unknown): void
}

/** SETNX and EXPIRE go out in one MULTI, so a crash can't leave a lock without ttl. */
export async function acquireOrderLock(orderId: string): Promise<string | null> {
  const key = `order:${orderId}:lock`
  const token = randomUUID()
  const replies = await redis.multi().setnx(key, token).expire(key, LOCK_TTL).exec()
  if (!replies) return null
  const [err, created] = replies[0]
  if (err) throw err
  return created === 1 ? token : null
}

export async function releaseOrderLock(orderId: string, token: string) {
  await redis.eval(unlock, 1, `order:${orderId}:lock`, token)
}

// POST /orders/:orderId/capture
export async function captureOrder(
  req: Req,
  res: Res,
  capture: (orderId: string, amount: number) => Promise<void>,
) {
  const { orderId } = req.params
  let token: string | null = null
  for (let i = 0; i < 25 && !token; i++) {
    token = await acquireOrderLock(orderId)
    if (!token) await new Promise((r) => setTimeout(r, 200))
  }
  if (!token) return res.status(423).json({ error: 'order is being processed' })

  try {
    await capture(orderId, req.body.amount)
    res.status(200).json({ ok: true })
  } finally {
    await releaseOrderLock(orderId, token)
  }
}
