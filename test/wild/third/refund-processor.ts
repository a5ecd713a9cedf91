import { randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis'

export interface RefundJob {
  id: string
  data: { paymentId: string; amount: number }
}

export type RefundHandler = (job: RefundJob, signal: AbortSignal) => Promise<void>

/** The queue puts a job back that throws this. */
export class RetryLater extends Error {}

const TTL = 15_000
const RENEW = 5_000
const MARGIN = 300

const EXTEND = `
if redis.call("get", KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call("pexpire", KEYS[1], ARGV[2])`
const RELEASE = `
if redis.call("get", KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call("del", KEYS[1])`

export function createRefundProcessor(redis: Redis, handle: RefundHandler) {
  return async function process(job: RefundJob): Promise<void> {
    const key = `refund:{${job.data.paymentId}}:lock`
    const token = `${job.id}:${randomUUID()}`

    const asked = performance.now()
    const got = await redis.set(key, token, 'PX', TTL, 'NX')
    if (got !== 'OK') throw new RetryLater(`payment ${job.data.paymentId} is being refunded`)

    const lost = new AbortController()
    const giveUp = () => lost.abort(new RetryLater(`lost the lock of ${job.data.paymentId}`))
    let deadline = asked + TTL - MARGIN
    let fuse = setTimeout(giveUp, Math.max(0, deadline - performance.now()))
    let renewing: Promise<void> | undefined

    const renew = async () => {
      const sent = performance.now()
      let kept: unknown
      try {
        kept = await redis.eval(EXTEND, 1, key, token, TTL)
      } catch {
        return // the fuse still stands where it was
      }
      if (lost.signal.aborted) return
      if (kept !== 1) return giveUp()
      deadline = sent + TTL - MARGIN
      clearTimeout(fuse)
      fuse = setTimeout(giveUp, Math.max(0, deadline - performance.now()))
    }

    const ticker = setInterval(() => {
      if (lost.signal.aborted) return clearInterval(ticker)
      renewing ??= renew().finally(() => {
        renewing = undefined
      })
    }, RENEW)

    try {
      if (performance.now() >= deadline) giveUp()
      lost.signal.throwIfAborted()
      await handle(job, lost.signal)
      lost.signal.throwIfAborted()
    } finally {
      clearInterval(ticker)
      await renewing
      clearTimeout(fuse)
      await redis.eval(RELEASE, 1, key, token).catch(() => 0)
    }
  }
}
