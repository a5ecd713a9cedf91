import Redis from 'ioredis'
import Redlock from 'redlock4'

const LOCK_MS = 15_000
const WORK_MS = 8_000

export function createRedlock(url = process.env.REDIS_URL) {
  const client = new Redis(url, { commandTimeout: 1_000 })
  const redlock = new Redlock([client], {
    driftFactor: 0.01,
    retryCount: 5,
    retryDelay: 150,
    retryJitter: 100,
  })
  redlock.on('clientError', (err) => console.error('redlock client', err.message))
  return redlock
}

const HANDLE = /^[a-z][a-z0-9_]{2,23}$/i

async function isOffensive(handle, signal) {
  const res = await fetch(`${process.env.MODERATION_URL}/words/${encodeURIComponent(handle)}`, { signal })
  if (!res.ok) throw new Error(`moderation service: ${res.status}`)
  const { offensive } = await res.json()
  return offensive
}

/**
 * PUT /me/handle  { "handle": "Ada_L" }
 *
 * Handles are unique regardless of case: the profile shows the spelling the
 * user chose, look-ups go by the lower-case form.
 *
 * @param users  findByHandle(lower, { signal }), setHandle(userId, { lower, display }, { signal })
 */
export function claimHandleRoute({ redlock, users }) {
  return async function claimHandle(req, res, next) {
    const handle = String(req.body?.handle ?? '').trim()
    if (!HANDLE.test(handle)) {
      res.status(400).json({ error: 'a handle has 3 to 24 letters, digits or underscores' })
      return
    }

    let lock
    try {
      lock = await redlock.lock(`locks:handle:${handle}`, LOCK_MS)
    } catch (err) {
      if (err.name === 'LockError') res.status(503).json({ error: 'please try again' })
      else next(err)
      return
    }

    const signal = AbortSignal.timeout(WORK_MS)
    try {
      const lower = handle.toLowerCase()
      const owner = await users.findByHandle(lower, { signal })
      if (owner && owner.id !== req.user.id) {
        res.status(409).json({ error: 'this handle is taken' })
        return
      }
      if (await isOffensive(lower, signal)) {
        res.status(422).json({ error: 'please choose another handle' })
        return
      }
      signal.throwIfAborted()
      await users.setHandle(req.user.id, { lower, display: handle }, { signal })
      res.json({ handle })
    } catch (err) {
      next(err)
    } finally {
      await lock.unlock().catch((err) => {
        console.warn(`unlock of ${lock.resource} failed, it will expire`, err.message)
      })
    }
  }
}
