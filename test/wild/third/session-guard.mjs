import { createHash, randomBytes } from 'node:crypto'
import { createClient } from 'redis'

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`
const RELEASE_SHA = createHash('sha1').update(RELEASE).digest('hex')

let client

/** Call it once, before anything else. */
export async function connect(url = process.env.REDIS_URL) {
  if (client) return
  client = createClient({ url })
  client.on('error', (err) => console.error('session-guard:', err.message))
  await client.connect()
}

export async function disconnect() {
  const c = client
  client = undefined
  if (c) await c.close()
}

/**
 * @param {string} sessionId
 * @param {number} ttlMs
 * @returns {Promise<{ key: string, token: string, validUntil: number } | null>} `validUntil` is on the clock of
 * `performance.now()`; null if another worker has the session.
 */
export async function acquire(sessionId, ttlMs = 15_000) {
  const key = `session:${sessionId}:guard`
  const token = randomBytes(18).toString('base64url')
  const begin = performance.now()
  const answer = await client.set(key, token, { NX: true, PX: ttlMs })
  if (answer !== 'OK') return null

  const guard = { key, token, validUntil: begin + ttlMs - Math.ceil(ttlMs / 50) - 5 }
  if (performance.now() < guard.validUntil) return guard
  await release(guard)
  return null
}

/** @returns {Promise<boolean>} false: it had expired before */
export async function release({ key, token }) {
  const options = { keys: [key], arguments: [token] }
  let deleted
  try {
    deleted = await client.evalSha(RELEASE_SHA, options)
  } catch (err) {
    if (!String(err?.message).startsWith('NOSCRIPT')) throw err
    deleted = await client.eval(RELEASE, options)
  }
  return deleted === 1
}
