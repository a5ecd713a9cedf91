import Redis from 'ioredis'
import { Mutex } from 'redis-semaphore'

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379')

const LOCK_TIMEOUT = 12_000

export class MutexTimeout extends Error {}

/**
 * Thin layer over redis-semaphore. We switch its own refresh off and hand out a deadline instead:
 * invoices must never be numbered by somebody whose lock might be gone.
 */
export async function lockedInvoiceNumbering<T>(
  companyId: string,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const giveUp = Date.now() + 20_000

  while (Date.now() < giveUp) {
    const mutex = new Mutex(redis, `invoice-no:${companyId}`, {
      lockTimeout: LOCK_TIMEOUT,
      acquireTimeout: LOCK_TIMEOUT,
      acquireAttemptsLimit: 1,
      retryInterval: 20,
      refreshInterval: 0,
    })
    // one attempt per object, so `before` belongs to exactly this SET
    const before = Date.now()
    if (await mutex.tryAcquire()) {
      const left = before + LOCK_TIMEOUT - 250 - Date.now()
      if (left <= 0) {
        await mutex.release().catch(() => {})
        continue
      }
      const ctl = new AbortController()
      const t = setTimeout(() => ctl.abort(new Error('invoice lock expired')), left)
      try {
        const r = await work(ctl.signal)
        ctl.signal.throwIfAborted()
        return r
      } finally {
        clearTimeout(t)
        await mutex.release().catch((e) => console.warn('release', e))
      }
    }
    await new Promise((r) => setTimeout(r, 80 + Math.random() * 120))
  }
  throw new MutexTimeout(companyId)
}
