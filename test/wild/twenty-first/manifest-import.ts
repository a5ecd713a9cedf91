import { randomUUID } from 'node:crypto'
import { Redis } from '@upstash/redis'

const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL!,
  token: process.env.UPSTASH_REDIS_REST_TOKEN!,
})

const LOCK_MS = 10 * 60_000
const BATCH_MS = 60_000

// The value is "<token>|<progress>"; the ops dashboard shows the second half.
const NOTE = `
local held = redis.call('GET', KEYS[1])
if held and string.sub(held, 1, #ARGV[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[1] .. '|' .. ARGV[2])
  return 1
end
return 0`

const RELEASE = `
local held = redis.call('GET', KEYS[1])
if held and string.sub(held, 1, #ARGV[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`

export interface ImportLock {
  key: string
  token: string
  deadline: number
}

export async function acquireImport(carrier: string): Promise<ImportLock | null> {
  const key = `manifest-import:${carrier}`
  const token = randomUUID()
  const deadline = performance.now() + LOCK_MS
  const reply = await redis.set(key, `${token}|starting`, { nx: true, px: LOCK_MS })
  return reply === 'OK' ? { key, token, deadline } : null
}

/** Publishes how far we are. Fails when the lock isn't ours any more. */
export async function noteProgress(lock: ImportLock, progress: string): Promise<void> {
  const ours = await redis.eval(NOTE, [lock.key], [lock.token, progress])
  if (ours !== 1) throw new Error(`${lock.key} was lost`)
}

export async function releaseImport(lock: ImportLock): Promise<void> {
  await redis.eval(RELEASE, [lock.key], [lock.token])
}

export interface ManifestRow {
  awb: string
  weight: number
}

export interface ShipmentRepo {
  insertMany(carrier: string, rows: ManifestRow[], signal: AbortSignal): Promise<void>
}

export async function importManifest(
  carrier: string,
  batches: ManifestRow[][],
  repo: ShipmentRepo,
): Promise<'imported' | 'already running'> {
  const lock = await acquireImport(carrier)
  if (!lock) return 'already running'
  try {
    for (const [i, rows] of batches.entries()) {
      await noteProgress(lock, `batch ${i + 1} of ${batches.length}`)
      // never begin a batch that could run past the ten minutes
      if (lock.deadline - performance.now() < 2 * BATCH_MS) {
        throw new Error(`${carrier}: out of time after ${i} batches`)
      }
      await repo.insertMany(carrier, rows, AbortSignal.timeout(BATCH_MS))
    }
    return 'imported'
  } finally {
    await releaseImport(lock).catch((err) => console.warn('manifest import: release failed', err))
  }
}
