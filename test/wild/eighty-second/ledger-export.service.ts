import { randomUUID } from 'node:crypto'
import type Redis from 'ioredis'
import type { Logger } from 'winston'

export interface LedgerExportOptions {
  lockTtlMs?: number
  heartbeatMs?: number
  keyPrefix?: string
}

export interface LedgerSource {
  stream(month: string): AsyncIterable<string[]>
}

export interface ExportSink {
  append(month: string, row: string[]): Promise<void>
  seal(month: string): Promise<void>
}

export class ExportInProgressError extends Error {
  constructor(public readonly month: string) {
    super(`Ledger export for ${month} is in progress`)
    this.name = 'ExportInProgressError'
  }
}

export class ExportLockLostError extends Error {
  constructor(public readonly month: string) {
    super(`Ledger export for ${month} lost its lock`)
    this.name = 'ExportLockLostError'
  }
}

const UNLOCK_SCRIPT = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`

export class LedgerExportService {
  private readonly options: Required<LedgerExportOptions>

  constructor(
    private readonly redis: Redis,
    private readonly source: LedgerSource,
    private readonly sink: ExportSink,
    private readonly logger: Logger,
    options: LedgerExportOptions = {},
  ) {
    this.options = { lockTtlMs: 20_000, heartbeatMs: 6_000, keyPrefix: 'ledger-export', ...options }
  }

  async export(month: string): Promise<number> {
    const key = `${this.options.keyPrefix}:${month}`
    const token = randomUUID()

    const acquired = await this.redis.set(key, token, 'PX', this.options.lockTtlMs, 'NX')
    if (acquired !== 'OK') {
      throw new ExportInProgressError(month)
    }

    let lost = false
    let confirmedAt = Date.now()
    const heartbeat = setInterval(async () => {
      const startedAt = Date.now()
      try {
        const renewed = await this.redis.pexpire(key, this.options.lockTtlMs)
        if (renewed === 1) {
          confirmedAt = startedAt
        } else {
          lost = true
        }
      } catch (error) {
        this.logger.warn('ledger export heartbeat failed', { key, error })
        if (Date.now() - confirmedAt > this.options.lockTtlMs / 2) {
          lost = true
        }
      }
    }, this.options.heartbeatMs)

    let written = 0
    try {
      for await (const row of this.source.stream(month)) {
        if (lost) {
          throw new ExportLockLostError(month)
        }
        await this.sink.append(month, row)
        written += 1
      }
      await this.sink.seal(month)
      this.logger.info('ledger export finished', { month, written, confirmedAt })
      return written
    } finally {
      clearInterval(heartbeat)
      await this.unlock(key, token)
    }
  }

  private async unlock(key: string, token: string): Promise<void> {
    try {
      await this.redis.eval(UNLOCK_SCRIPT, 1, key, token)
    } catch (error) {
      this.logger.error('ledger export lock not released', { key, error })
    }
  }
}
