import { randomUUID } from 'node:crypto'
import Redis from 'ioredis'

const nodes = (process.env.REDIS_NODES ?? 'localhost:7001,localhost:7002,localhost:7003').split(',').map((n) => {
  const [host, port] = n.split(':')
  return new Redis({ host, port: Number(port), commandTimeout: 200, maxRetriesPerRequest: 0 })
})
for (const n of nodes) n.on('error', () => {})

const QUORUM = Math.floor(nodes.length / 2) + 1
const TTL = 9_000
const DRIFT = TTL * 0.01 + 2

const EXTEND = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end`
const UNLOCK = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`

const ask = (fn: (n: Redis) => Promise<unknown>) =>
  Promise.all(nodes.map((n) => fn(n).catch(() => null)))

export async function runBatch(name: string, batch: (signal: AbortSignal) => Promise<void>): Promise<boolean> {
  const key = `batch:${name}`
  const token = randomUUID()

  const start = Date.now()
  const votes = await ask((n) => n.set(key, token, 'PX', TTL, 'NX'))
  let validUntil = start + TTL - DRIFT
  if (votes.filter((v) => v === 'OK').length < QUORUM || Date.now() >= validUntil) {
    await ask((n) => n.eval(UNLOCK, 1, key, token))
    return false
  }

  const ac = new AbortController()
  const timer = setInterval(async () => {
    const t = Date.now()
    const replies = await ask((n) => n.eval(EXTEND, 1, key, token, TTL))
    if (replies.some((r) => r === 1)) {
      validUntil = t + TTL - DRIFT
    } else if (Date.now() >= validUntil) {
      ac.abort(new Error(`${name}: lock lost`))
    }
  }, TTL / 3)

  try {
    await batch(ac.signal)
    return true
  } finally {
    clearInterval(timer)
    await ask((n) => n.eval(UNLOCK, 1, key, token))
  }
}
