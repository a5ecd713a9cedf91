import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'

// A WAIT that is sent again on a new connection would count replicas for nothing.
const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', {
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 1,
})
redis.on('error', () => {})

const REPLICAS = Number(process.env.LOCK_REPLICAS ?? 1)
const WAIT_MS = 150

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0`

export interface DurableLock {
  readonly token: string
  readonly validUntil: number
}

/** Gives the lock only when a replica has it too. It narrows what a failover can lose; it does not close it. */
export async function lockDurably(key: string, ttlMs: number): Promise<DurableLock | null> {
  const token = randomUUID()
  const started = performance.now()
  const results = await redis.pipeline().set(key, token, 'PX', ttlMs, 'NX').wait(REPLICAS, WAIT_MS).exec()
  const [setError, setReply] = results?.[0] ?? [new Error('no answer'), null]
  const [waitError, replicas] = results?.[1] ?? [new Error('no answer'), 0]
  if (!setError && setReply !== 'OK') return null

  const validUntil = started + ttlMs - Math.ceil(ttlMs / 100) - 2
  if (!setError && !waitError && Number(replicas) >= REPLICAS && performance.now() < validUntil) {
    return { token, validUntil }
  }
  await unlockDurably(key, token)
  if (setError) throw setError
  return null
}

export async function unlockDurably(key: string, token: string): Promise<boolean> {
  return (await redis.eval(RELEASE, 1, key, token)) === 1
}
