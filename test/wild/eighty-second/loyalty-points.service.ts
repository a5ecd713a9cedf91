import os from 'node:os'
import { setTimeout as pause } from 'node:timers/promises'
import { Redis } from 'ioredis'

export interface LoyaltyLockSettings {
  ttlMs: number
  waitMs: number
  pollMs: number
}

const DEFAULT_SETTINGS: LoyaltyLockSettings = { ttlMs: 15_000, waitMs: 4_000, pollMs: 60 }

const RELEASE_LUA = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`

export interface AccountRepository {
  balance(memberId: string): Promise<number>
  setBalance(memberId: string, points: number): Promise<void>
  addEntry(memberId: string, delta: number, reason: string): Promise<void>
}

export interface AppLogger {
  debug(message: string, context?: object): void
  error(message: string, context?: object): void
}

export class AccountLockTimeoutError extends Error {
  constructor(memberId: string) {
    super(`Loyalty account ${memberId} is locked`)
    this.name = 'AccountLockTimeoutError'
  }
}

export class InsufficientPointsError extends Error {
  constructor(memberId: string, public readonly missing: number) {
    super(`Loyalty account ${memberId} lacks ${missing} points`)
    this.name = 'InsufficientPointsError'
  }
}

export class LoyaltyPointsService {
  private readonly settings: LoyaltyLockSettings
  private readonly nodeId = `${os.hostname()}:${process.pid}`

  constructor(
    private readonly redis: Redis,
    private readonly accounts: AccountRepository,
    private readonly logger: AppLogger,
    settings: Partial<LoyaltyLockSettings> = {},
  ) {
    this.settings = { ...DEFAULT_SETTINGS, ...settings }
  }

  /** Called by the HTTP controller for each redemption request. */
  async redeem(memberId: string, points: number, reason: string): Promise<number> {
    return this.withAccount(memberId, async () => {
      const balance = await this.accounts.balance(memberId)
      if (balance < points) {
        throw new InsufficientPointsError(memberId, points - balance)
      }
      await this.accounts.setBalance(memberId, balance - points)
      await this.accounts.addEntry(memberId, -points, reason)
      return balance - points
    })
  }

  private async withAccount<T>(memberId: string, action: () => Promise<T>): Promise<T> {
    const key = `loyalty:account:${memberId}`
    await this.acquire(key, memberId)
    try {
      return await action()
    } finally {
      await this.redis
        .eval(RELEASE_LUA, 1, key, this.nodeId)
        .catch((error) => this.logger.error('loyalty lock release failed', { key, error }))
    }
  }

  private async acquire(key: string, memberId: string): Promise<void> {
    const deadline = Date.now() + this.settings.waitMs
    while (Date.now() < deadline) {
      const reply = await this.redis.set(key, this.nodeId, 'PX', this.settings.ttlMs, 'NX')
      if (reply === 'OK') {
        return
      }
      if ((await this.redis.get(key)) === this.nodeId) {
        this.logger.debug('loyalty lock already owned', { key })
        return
      }
      await pause(this.settings.pollMs + Math.random() * this.settings.pollMs)
    }
    throw new AccountLockTimeoutError(memberId)
  }
}
