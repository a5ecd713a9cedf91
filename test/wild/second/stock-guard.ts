import { randomBytes } from 'node:crypto'
import Redis from 'ioredis'

const redis = new Redis(process.env.REDIS_URL as string)

const release = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`

/**
 * Locks a product and reads its stock in a single round trip.
 */
export async function lockStock(productId: string, ttlMs = 5000) {
  const token = randomBytes(12).toString('hex')
  const until = Date.now() + ttlMs - 50

  const replies = await redis
    .pipeline()
    .set(`stock:${productId}:lock`, token, 'PX', ttlMs, 'NX')
    .get(`stock:${productId}`)
    .exec()

  const [locked, stock] = replies ?? []
  if (!locked || locked[0]) return null

  return {
    token,
    until,
    stock: Number(stock?.[1] ?? 0),
    release: () => redis.eval(release, 1, `stock:${productId}:lock`, token),
  }
}

export async function reserve(productId: string, quantity: number) {
  const lock = await lockStock(productId)
  if (!lock) throw new Error('product is busy')
  try {
    if (lock.stock < quantity) throw new Error('out of stock')
    await redis.decrby(`stock:${productId}`, quantity)
  } finally {
    await lock.release()
  }
}
