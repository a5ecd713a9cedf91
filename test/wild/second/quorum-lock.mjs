import { randomUUID } from 'node:crypto'
import { createClient } from 'redis'

const urls = (process.env.REDIS_NODES ?? 'redis://10.0.1.11:6379,redis://10.0.2.11:6379,redis://10.0.3.11:6379')
  .split(',')
  .map((s) => s.trim())
  .filter(Boolean)

const NODE_TIMEOUT = Number(process.env.REDIS_NODE_TIMEOUT ?? 150)
const majority = Math.floor(urls.length / 2) + 1

const clients = urls.map((url) => {
  const c = createClient({ url, disableOfflineQueue: true })
  c.on('error', () => {}) // a dead node is normal, it just doesn't vote
  return c
})

let started
async function start() {
  // don't wait for every node, a majority is found out while locking
  started ??= Promise.race([
    Promise.allSettled(clients.map((c) => c.connect())),
    new Promise((r) => setTimeout(r, 2000)),
  ])
  await started
}

const COMPARE_DEL = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"

function within(ms, promise) {
  let t
  const late = new Promise((_, reject) => {
    t = setTimeout(() => reject(new Error('node timeout')), ms)
  })
  return Promise.race([promise, late]).finally(() => clearTimeout(t))
}

async function everywhere(op) {
  const res = await Promise.allSettled(clients.map((c) => within(NODE_TIMEOUT, op(c))))
  return res.map((r) => (r.status === 'fulfilled' ? r.value : undefined))
}

const release = (key, token) => everywhere((c) => c.eval(COMPARE_DEL, { keys: [key], arguments: [token] }))

export async function lock(key, ttl, { tries = 15, signal } = {}) {
  await start()
  for (let i = 0; i < tries; i++) {
    signal?.throwIfAborted()
    const token = randomUUID()
    const before = performance.now()
    const replies = await everywhere((c) => c.set(key, token, { condition: 'NX', expiration: { type: 'PX', value: ttl } }))
    const votes = replies.filter((r) => r === 'OK').length
    const validity = ttl - (performance.now() - before) - (ttl * 0.01 + 2)
    if (votes >= majority && validity > 0) {
      const until = performance.now() + validity
      return { key, token, remaining: () => until - performance.now() }
    }
    await release(key, token)
    await new Promise((r) => setTimeout(r, 50 + Math.floor(Math.random() * 250)))
  }
  return null
}

export async function unlock(held) {
  const replies = await release(held.key, held.token)
  return replies.filter((r) => r === 1).length >= majority
}

export async function shutdown() {
  for (const c of clients) c.destroy()
}
