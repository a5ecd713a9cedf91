import { hostname } from 'node:os'
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from 'redis'

export interface Indexer {
  /** Takes the oldest pending changes, sends them to the search engine and deletes them. */
  indexPending(max: number, signal: AbortSignal): Promise<number>
}

const KEY = 'search:indexer:leader'
const TTL = 15_000
const BEAT = 4_000

const BEAT_SCRIPT = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('PEXPIRE', KEYS[1], ARGV[2])
  end
  return 0
`
const LEAVE_SCRIPT = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
  end
  return 0
`

export async function startIndexer(indexer: Indexer, stop: AbortSignal): Promise<void> {
  const client = createClient({
    url: process.env.REDIS_URL,
    disableOfflineQueue: true,
    pingInterval: 2_000,
    socket: { socketTimeout: 6_000 },
  })
  client.on('error', (err) => console.error('[indexer] redis', err.message))
  await client.connect()

  const me = `${hostname()}/${process.pid}/${randomUUID()}`
  let office: AbortController | null = null

  const heartbeat = async () => {
    while (!stop.aborted) {
      try {
        if (office) {
          const kept = await client.eval(BEAT_SCRIPT, { keys: [KEY], arguments: [me, String(TTL)] })
          if (kept !== 1) {
            console.warn('[indexer] %s is no longer the leader', me)
            office.abort(new Error('leadership lost'))
            office = null
          }
        } else {
          const won = await client.set(KEY, me, { NX: true, PX: TTL })
          if (won === 'OK') {
            console.info('[indexer] %s leads', me)
            office = new AbortController()
          }
        }
      } catch (err) {
        console.error('[indexer] heartbeat failed, next one in %d ms', BEAT, err)
      }
      await sleep(BEAT, undefined, { signal: stop }).catch(() => {})
    }
  }

  const work = async () => {
    while (!stop.aborted) {
      let done = 0
      const current = office
      if (current) {
        try {
          const signal = AbortSignal.any([current.signal, stop, AbortSignal.timeout(5_000)])
          done = await indexer.indexPending(100, signal)
        } catch (err) {
          console.error('[indexer] batch failed', err)
        }
      }
      if (done === 0) await sleep(1_000, undefined, { signal: stop }).catch(() => {})
    }
  }

  try {
    await Promise.all([heartbeat(), work()])
  } finally {
    try {
      await client.eval(LEAVE_SCRIPT, { keys: [KEY], arguments: [me] })
    } catch (err) {
      console.warn('[indexer] could not leave', err)
    }
    client.destroy()
  }
}
