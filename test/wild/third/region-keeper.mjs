import { randomUUID } from 'node:crypto'
import { createClient } from 'redis'

const urls = (process.env.REDIS_NODES ?? 'redis://a:6379,redis://b:6379,redis://c:6379').split(',')

const nodes = urls.map((url) => {
  const node = createClient({ url, socket: { connectTimeout: 1000 } })
  node.on('error', () => {})
  return node
})
const majority = Math.trunc(nodes.length / 2) + 1
const connected = Promise.allSettled(nodes.map((node) => node.connect()))

const RELEASE = 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end'
const EXTEND =
  'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("pexpire",KEYS[1],ARGV[2]) else return 0 end'

const NODE_TIMEOUT = 150

async function vote(question, yes) {
  await Promise.race([connected, new Promise((resolve) => setTimeout(resolve, NODE_TIMEOUT))])
  const answers = await Promise.all(
    nodes.map(async (node) => {
      let timer
      try {
        return await Promise.race([
          question(node),
          new Promise((resolve) => {
            timer = setTimeout(resolve, NODE_TIMEOUT)
          }),
        ])
      } catch {
        return undefined
      } finally {
        clearTimeout(timer)
      }
    }),
  )
  return answers.filter((answer) => answer === yes).length
}

const validity = (from, ttl) => from + ttl - Math.ceil(ttl * 0.01) - 2

/** @returns {Promise<{ resource: string, token: string, ttl: number, validUntil: number } | null>} */
export async function acquire(resource, ttl) {
  const token = randomUUID()
  const from = performance.now()
  const votes = await vote((node) => node.set(resource, token, { NX: true, PX: ttl }), 'OK')
  const validUntil = validity(from, ttl)
  if (votes >= majority && performance.now() < validUntil) return { resource, token, ttl, validUntil }
  await release({ resource, token })
  return null
}

/** Extends the lock in place. On false the work has to stop at `lock.validUntil`, which has not moved. */
export async function extend(lock, ttl = lock.ttl) {
  if (performance.now() >= lock.validUntil) return false
  const from = performance.now()
  const votes = await vote(
    (node) => node.eval(EXTEND, { keys: [lock.resource], arguments: [lock.token, String(ttl)] }),
    1,
  )
  const validUntil = validity(from, ttl)
  if (votes < majority || performance.now() >= validUntil) return false
  lock.validUntil = validUntil
  return true
}

export async function release({ resource, token }) {
  const gone = await vote((node) => node.eval(RELEASE, { keys: [resource], arguments: [token] }), 1)
  return gone >= majority
}
