import { randomUUID } from 'node:crypto'
import Valkey from 'iovalkey'

const hosts = (process.env.VALKEY_NODES ?? 'vk1:6379 vk2:6379 vk3:6379').split(/\s+/)
const nodes = hosts.map((h) => {
  const [host, port] = h.split(':')
  const v = new Valkey({ host, port: Number(port), maxRetriesPerRequest: 0 })
  v.on('error', () => {})
  return v
})

const majority = Math.floor(nodes.length / 2) + 1
const TTL = 3_000
const NODE_TIMEOUT = 1_200

const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"

const limit = async <T>(p: Promise<T>): Promise<T | null> => {
  let t: NodeJS.Timeout
  const timeout = new Promise<null>((r) => {
    t = setTimeout(() => r(null), NODE_TIMEOUT)
  })
  return Promise.race([p.catch(() => null), timeout]).finally(() => clearTimeout(t))
}

/** One posting at a time per ledger; nodes are asked one after another. */
export async function withLedger<T>(ledger: string, post: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const key = `ledger:${ledger}`

  for (let i = 0; i < 10; i++) {
    const token = randomUUID()
    let yes = 0
    for (const n of nodes) {
      if ((await limit(n.set(key, token, 'PX', TTL, 'NX'))) === 'OK') yes++
    }
    const validUntil = Date.now() + TTL - Math.ceil(TTL * 0.01) - 2

    try {
      if (yes >= majority) {
        const signal = AbortSignal.timeout(validUntil - Date.now())
        const res = await post(signal)
        signal.throwIfAborted()
        return res
      }
    } finally {
      await Promise.all(nodes.map((n) => limit(n.eval(UNLOCK, 1, key, token))))
    }
    await new Promise((r) => setTimeout(r, 50 + Math.random() * 200))
  }
  throw new Error(`ledger ${ledger} is locked`)
}
