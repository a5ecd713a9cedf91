import { randomUUID } from 'node:crypto'
import { createClient } from 'redis'
import pg from 'pg'

const db = new pg.Pool({ connectionString: process.env.DATABASE_URL, query_timeout: 3_000, statement_timeout: 3_000 })

const redis = await createClient({ url: process.env.REDIS_URL })
  .on('error', (err) => console.error('redis', err.message))
  .connect()

const TAKE = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0`

const GIVE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`

export class Busy extends Error {}
export class Superseded extends Error {}

const fenced = (ttl) => async (id, fn) => {
  const lock = `shadow:{${id}}:lock`
  const token = randomUUID()
  const fence = await redis.eval(TAKE, { keys: [lock, `shadow:{${id}}:fence`], arguments: [token, String(ttl)] })
  if (!fence) throw new Busy(id)
  try {
    return await fn(fence)
  } finally {
    await redis.eval(GIVE, { keys: [lock], arguments: [token] }).catch((err) => console.warn('give', id, err.message))
  }
}

const open = async (id, fence) => {
  const { rows } = await db.query(
    'update device_shadow set fence = $2 where device_id = $1 and fence < $2 returning doc',
    [id, fence],
  )
  if (!rows.length) throw new Superseded(id)
  return rows[0].doc
}

const commit = async (id, fence, doc) => {
  const { rowCount } = await db.query(
    'update device_shadow set doc = $3, changed_at = now() where device_id = $1 and fence = $2',
    [id, fence, JSON.stringify(doc)],
  )
  if (!rowCount) throw new Superseded(id)
  return doc
}

const merge = (base, patch) =>
  Object.entries(patch).reduce(
    (out, [k, v]) => {
      if (v === null) delete out[k]
      else out[k] = v && typeof v === 'object' && !Array.isArray(v) ? merge(out[k] ?? {}, v) : v
      return out
    },
    { ...base },
  )

const withFence = fenced(10_000)

export const patchShadow = (id, patch) =>
  withFence(id, async (fence) => {
    const doc = await open(id, fence)
    return commit(id, fence, merge(doc, { desired: patch }))
  })
