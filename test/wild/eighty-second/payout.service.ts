import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { RedisClientType } from 'redis'
import type { Pool } from 'pg'
import type { Logger } from 'pino'
import { config } from './config'

const COMPARE_AND_DELETE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`

export interface PayoutServiceOptions {
  lockTtlMs: number
  maxAttempts: number
  baseDelayMs: number
  maxDelayMs: number
}

const DEFAULTS: PayoutServiceOptions = {
  lockTtlMs: 90_000,
  maxAttempts: 6,
  baseDelayMs: 100,
  maxDelayMs: 2_000,
}

export class PayoutLockedError extends Error {
  readonly code = 'PAYOUT_LOCKED'
  constructor(readonly payoutId: string, readonly attempts: number) {
    super(`Payout ${payoutId} is being processed elsewhere (${attempts} attempts)`)
    this.name = 'PayoutLockedError'
  }
}

export interface Metrics {
  increment(name: string, tags?: Record<string, string>): void
}

/** The pool is created with statement_timeout, query_timeout and connectionTimeoutMillis of 5 s each. */
export class PayoutService {
  private readonly options: PayoutServiceOptions

  constructor(
    private readonly redis: RedisClientType,
    private readonly db: Pool,
    private readonly logger: Logger,
    private readonly metrics: Metrics,
    options: Partial<PayoutServiceOptions> = {},
  ) {
    this.options = { ...DEFAULTS, ...options }
  }

  async execute(payoutId: string): Promise<'sent' | 'already-sent'> {
    const key = `payout:lock:${payoutId}`
    const token = randomUUID()
    await this.acquire(payoutId, key, token)
    try {
      return await this.send(payoutId)
    } finally {
      await this.release(key, token)
    }
  }

  private async send(payoutId: string): Promise<'sent' | 'already-sent'> {
    const { rows } = await this.db.query(
      'SELECT id, status, amount_cents, iban FROM payouts WHERE id = $1',
      [payoutId],
    )
    const payout = rows[0]
    if (!payout) throw new Error(`Unknown payout ${payoutId}`)
    if (payout.status === 'sent') return 'already-sent'

    const response = await fetch(`${config.bankUrl}/transfers`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': `payout-${payout.id}` },
      body: JSON.stringify({ amount: payout.amount_cents, iban: payout.iban }),
      signal: AbortSignal.timeout(15_000),
    })
    if (!response.ok) throw new Error(`Bank refused payout ${payoutId}: ${response.status}`)
    const { reference } = (await response.json()) as { reference: string }

    await this.db.query(
      `UPDATE payouts SET status = 'sent', reference = $2, sent_at = now() WHERE id = $1 AND status = 'pending'`,
      [payoutId, reference],
    )
    this.metrics.increment('payout.sent')
    return 'sent'
  }

  private async acquire(payoutId: string, key: string, token: string): Promise<void> {
    const { maxAttempts, baseDelayMs, maxDelayMs, lockTtlMs } = this.options
    for (let attempt = 1; attempt <= maxAttempts; attempt++) {
      const reply = await this.redis.set(key, token, { NX: true, PX: lockTtlMs })
      if (reply === 'OK') return
      this.metrics.increment('payout.lock.contended')
      if (attempt === maxAttempts) break
      const ceiling = Math.min(maxDelayMs, baseDelayMs * 2 ** attempt)
      await delay(ceiling / 2 + Math.random() * (ceiling / 2))
    }
    throw new PayoutLockedError(payoutId, maxAttempts)
  }

  private async release(key: string, token: string): Promise<void> {
    try {
      const removed = await this.redis.eval(COMPARE_AND_DELETE, { keys: [key], arguments: [token] })
      if (removed !== 1) this.logger.warn({ key }, 'payout lock had expired before release')
    } catch (err) {
      this.logger.error({ err, key }, 'payout lock could not be released, it will expire')
    }
  }
}
