import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { createClient } from 'redis'
import { appConfig } from '../config'

type Client = ReturnType<typeof createClient>

interface RenewalLockOptions {
  /** how long the lock lives, in seconds */
  ttl: number
  attempts: number
  backoff: number
}

const defaultOptions: RenewalLockOptions = {
  ttl: appConfig.renewal?.lockTtl ?? 45,
  attempts: 4,
  backoff: 250,
}

interface Subscription {
  id: string
  customerId: string
  periodEnd: Date
  priceCents: number
}

interface SubscriptionStore {
  find(id: string): Promise<Subscription>
  advance(id: string, to: Date): Promise<void>
}

interface Billing {
  charge(customerId: string, cents: number): Promise<{ chargeId: string }>
}

export class RenewalLockError extends Error {}

export class SubscriptionRenewal {
  private readonly options: RenewalLockOptions

  constructor(
    private readonly redis: Client,
    private readonly store: SubscriptionStore,
    private readonly billing: Billing,
    private readonly log: Pick<Console, 'info' | 'warn'> = console,
    options: Partial<RenewalLockOptions> = {},
  ) {
    this.options = { ...defaultOptions, ...options }
  }

  async renew(id: string, now = new Date()): Promise<string | null> {
    const key = `renewal:${id}`
    const token = randomUUID()
    await this.lock(key, token)
    this.log.info(`renewal of ${id} locked for ${this.options.ttl}s`)
    try {
      const subscription = await this.store.find(id)
      if (subscription.periodEnd > now) return null
      const { chargeId } = await this.billing.charge(subscription.customerId, subscription.priceCents)
      const next = new Date(subscription.periodEnd)
      next.setUTCMonth(next.getUTCMonth() + 1)
      await this.store.advance(id, next)
      return chargeId
    } finally {
      await this.unlock(key, token)
    }
  }

  private async lock(key: string, token: string): Promise<void> {
    const { ttl, attempts, backoff } = this.options
    for (let i = 0; i < attempts; i++) {
      const ok = await this.redis.set(key, token, { NX: true, PX: ttl })
      if (ok) return
      await wait(backoff * 2 ** i * (0.5 + Math.random()))
    }
    throw new RenewalLockError(`could not lock ${key} in ${attempts} attempts`)
  }

  private async unlock(key: string, token: string): Promise<void> {
    await this.redis
      .eval(`if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`, {
        keys: [key],
        arguments: [token],
      })
      .catch((err: Error) => this.log.warn(`unlock ${key}: ${err.message}`))
  }
}
