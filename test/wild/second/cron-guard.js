import { randomUUID } from 'node:crypto'
import { createClient, WatchError } from 'redis'

const client = createClient({ url: process.env.REDIS_URL })
client.on('error', (err) => console.error('redis error', err))

/**
 * Scripting is disabled on our managed Redis, hence WATCH. It needs a connection of its own,
 * otherwise somebody else's EXEC drops our watch.
 */
async function removeIfOwned(key, token) {
  const own = client.duplicate()
  own.on('error', () => {})
  await own.connect()
  try {
    await own.watch(key)
    const current = await own.get(key)
    if (current !== token) {
      await own.unwatch()
      return false
    }
    await own.multi().del(key).exec()
    return true
  } catch (err) {
    if (err instanceof WatchError) return false
    throw err
  } finally {
    own.destroy()
  }
}

/**
 * Every pod runs the same crontab; two of them must never be in the same job at once.
 * @returns {Promise<boolean>} whether this pod ran it
 */
export async function runExclusive(job, maxMinutes, task) {
  if (!client.isOpen) await client.connect()

  const key = `cron:${job}`
  const token = randomUUID()
  const ttl = Math.round(maxMinutes * 60_000)
  const begin = Date.now()

  let got
  try {
    got = await client.set(key, token, { NX: true, PX: ttl })
  } catch (err) {
    await removeIfOwned(key, token).catch(() => {})
    throw err
  }
  if (got !== 'OK') return false

  const abort = new AbortController()
  const remaining = begin + ttl - Math.ceil(ttl * 0.01) - Date.now()
  if (remaining <= 0) {
    await removeIfOwned(key, token).catch(() => {})
    return false
  }
  const kill = setTimeout(() => abort.abort(new Error(`${job} ran over ${maxMinutes} min`)), remaining)

  try {
    await task({ signal: abort.signal })
    return true
  } finally {
    clearTimeout(kill)
    await removeIfOwned(key, token).catch((err) => console.error(`could not free ${key}`, err))
  }
}

export default runExclusive
