import { Inject, Injectable, Logger, OnModuleDestroy } from '@nestjs/common'
import { Counter, Histogram } from 'prom-client'
import IORedis from 'ioredis'
import Redlock, { ExecutionError, ResourceLockedError, type RedlockAbortSignal } from 'redlock5'

export interface CatalogPage {
  items: { sku: string; revision: number; title: string }[]
  next: string | null
}

export interface CatalogRepository {
  page(warehouseId: string, cursor: string | null, size: number): Promise<CatalogPage>
}

export interface SearchGateway {
  bulkUpsert(
    docs: { id: string; version: number; versionType: 'external_gte'; body: object }[],
    options: { timeoutMs: number },
  ): Promise<void>
}

export interface ReindexOptions {
  nodes: string[]
  leaseMs?: number
  extensionThresholdMs?: number
  pageSize?: number
}

export class ReindexBusyError extends Error {
  constructor(public readonly warehouseId: string, options?: ErrorOptions) {
    super(`Reindex of warehouse ${warehouseId} is already under way`, options)
    this.name = 'ReindexBusyError'
  }
}

const duration = new Histogram({ name: 'catalog_reindex_seconds', help: 'Time per reindex' })
const refused = new Counter({ name: 'catalog_reindex_refused_total', help: 'Reindexes refused as busy' })

@Injectable()
export class CatalogReindexService implements OnModuleDestroy {
  private readonly logger = new Logger(CatalogReindexService.name)
  private readonly clients: IORedis[]
  private readonly redlock: Redlock
  private readonly options: Required<ReindexOptions>

  constructor(
    @Inject('REINDEX_OPTIONS') options: ReindexOptions,
    @Inject('CATALOG_REPOSITORY') private readonly repository: CatalogRepository,
    @Inject('SEARCH_GATEWAY') private readonly search: SearchGateway,
  ) {
    this.options = { leaseMs: 30_000, extensionThresholdMs: 10_000, pageSize: 200, ...options }
    this.clients = this.options.nodes.map((url) => new IORedis(url, { maxRetriesPerRequest: 1, commandTimeout: 1_000 }))
    this.redlock = new Redlock(this.clients, { driftFactor: 0.01, retryCount: 5, retryDelay: 300, retryJitter: 150 })
    this.redlock.on('error', (error: Error) => {
      if (error instanceof ResourceLockedError) return
      this.logger.warn(`redlock: ${error.message}`)
    })
  }

  async reindex(warehouseId: string): Promise<number> {
    const stop = duration.startTimer()
    let entered = false
    try {
      return await this.redlock.using(
        [`reindex:${warehouseId}`],
        this.options.leaseMs,
        { automaticExtensionThreshold: this.options.extensionThresholdMs },
        async (signal) => {
          entered = true
          return this.run(warehouseId, signal)
        },
      )
    } catch (error) {
      if (!entered && error instanceof ExecutionError) {
        refused.inc()
        throw new ReindexBusyError(warehouseId, { cause: error })
      }
      throw error
    } finally {
      stop()
    }
  }

  private async run(warehouseId: string, signal: RedlockAbortSignal): Promise<number> {
    let cursor: string | null = null
    let count = 0
    do {
      const page: CatalogPage = await this.repository.page(warehouseId, cursor, this.options.pageSize)
      this.assertHeld(signal)
      await this.search.bulkUpsert(
        page.items.map((item) => ({ id: item.sku, version: item.revision, versionType: 'external_gte', body: item })),
        { timeoutMs: 5_000 },
      )
      this.assertHeld(signal)
      count += page.items.length
      cursor = page.next
    } while (cursor)
    this.logger.log(`warehouse ${warehouseId}: ${count} documents`)
    return count
  }

  private assertHeld(signal: RedlockAbortSignal): void {
    if (signal.aborted) throw signal.error ?? new Error('reindex lease was lost')
  }

  async onModuleDestroy(): Promise<void> {
    await Promise.allSettled(this.clients.map((client) => client.quit()))
  }
}
