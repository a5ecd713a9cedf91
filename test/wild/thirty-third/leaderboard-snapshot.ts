import { hostname } from 'node:os'
import { createClient } from 'redis'

type Redis = ReturnType<typeof createClient>

export interface SnapshotStore {
  insertSnapshot(board: string, period: string, rows: SnapshotRow[]): Promise<void>
}

export interface SnapshotRow {
  rank: number
  player: string
  score: number
}

const TOP = 100
const CLAIM_SECONDS = 3 * 60 * 60

let client: Redis | undefined

async function getRedis(): Promise<Redis> {
  if (!client) {
    client = createClient({ url: process.env.REDIS_URL })
    client.on('error', (err) => console.error('[redis]', err.message))
  }
  if (!client.isOpen) await client.connect()
  return client
}

/** e.g. 2024-05-01T13, always UTC */
function currentPeriod(now: Date): string {
  return now.toISOString().slice(0, 13)
}

export async function snapshotOnce(
  redis: Redis,
  store: SnapshotStore,
  board: string,
  now = new Date(),
): Promise<'taken' | 'skipped'> {
  const period = currentPeriod(now)

  // One replica per hour gets this. Nobody deletes the key: it has to outlive
  // the hour so that a replica whose timer fires a little later is turned away.
  const claim = await redis.set(`lb:${board}:snapshot:${period}`, hostname(), {
    NX: true,
    EX: CLAIM_SECONDS,
  })
  if (claim !== 'OK') return 'skipped'

  const top = await redis.zRangeWithScores(`lb:${board}`, 0, TOP - 1, { REV: true })
  await store.insertSnapshot(
    board,
    period,
    top.map(({ value, score }, i) => ({ rank: i + 1, player: value, score })),
  )
  return 'taken'
}

/**
 * Every replica runs this. If the hour's winner fails, that hour is a gap in
 * the history chart and the next hour starts afresh; we prefer that to a second
 * snapshot taken at a different moment under the same label.
 */
export function startSnapshots(store: SnapshotStore, boards: string[]): () => void {
  const tick = async () => {
    const redis = await getRedis()
    for (const board of boards) {
      try {
        const result = await snapshotOnce(redis, store, board)
        if (result === 'taken') console.log(`snapshot of ${board} stored`)
      } catch (err) {
        console.error(`snapshot of ${board} failed, hour is lost`, err)
      }
    }
  }
  const timer = setInterval(() => {
    tick().catch((err) => console.error('snapshot tick failed', err))
  }, 5 * 60_000)
  return () => clearInterval(timer)
}
