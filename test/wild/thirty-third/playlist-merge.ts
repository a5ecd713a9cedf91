import { Redis } from 'ioredis'
import { Mutex } from 'redis-semaphore'

const redis = new Redis({
  host: process.env.REDIS_HOST ?? 'localhost',
  port: Number(process.env.REDIS_PORT ?? 6379),
  commandTimeout: 2_000,
})
redis.on('error', (err) => console.error('redis:', err.message))

const LOCK_TIMEOUT = 30_000
const MERGE_LIMIT = 20_000

export interface Track {
  id: string
  addedAt: string
}

export interface MusicApi {
  tracks(playlistId: string, signal: AbortSignal): Promise<Track[]>
  replace(playlistId: string, trackIds: string[], signal: AbortSignal): Promise<void>
}

export class PlaylistBusyError extends Error {
  constructor(playlistId: string) {
    super(`playlist ${playlistId} is being edited, try again`)
    this.name = 'PlaylistBusyError'
  }
}

function mergeTracks(target: Track[], source: Track[]): string[] {
  const seen = new Set<string>()
  return [...target, ...source]
    .sort((a, b) => a.addedAt.localeCompare(b.addedAt))
    .filter((t) => !seen.has(t.id) && seen.add(t.id))
    .map((t) => t.id)
}

/**
 * Merges `sourceId` into `targetId`. A merge is two reads and one replace and
 * is cut off after MERGE_LIMIT, so the lock does not need to be refreshed.
 */
export async function mergePlaylists(api: MusicApi, targetId: string, sourceId: string): Promise<number> {
  const mutex = new Mutex(redis, `playlist:${targetId}`, {
    lockTimeout: LOCK_TIMEOUT,
    refreshInterval: 0,
    acquireTimeout: 8_000,
    retryInterval: 150,
  })

  if (!(await mutex.tryAcquire())) throw new PlaylistBusyError(targetId)

  const signal = AbortSignal.timeout(MERGE_LIMIT)
  try {
    const target = await api.tracks(targetId, signal)
    const source = await api.tracks(sourceId, signal)
    const merged = mergeTracks(target, source)
    if (merged.length > target.length) {
      signal.throwIfAborted()
      await api.replace(targetId, merged, signal)
    }
    return merged.length - target.length
  } finally {
    await mutex.release().catch((err) => {
      console.warn(`playlist ${targetId}: unlock failed, lock will time out`, err)
    })
  }
}
