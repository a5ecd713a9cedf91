import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { PrismaClient, type Prisma } from '@prisma/client'
import { Redis } from 'ioredis'

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`

export class SeriesLockedError extends Error {
  constructor(readonly series: string) {
    super(`Invoice series ${series} is locked`)
    this.name = 'SeriesLockedError'
  }
}

export class SeriesLock {
  constructor(
    private readonly redis: Redis,
    private readonly ttlMs = 30_000,
    private readonly maxAttempts = 25,
  ) {}

  async run<T>(series: string, task: () => Promise<T>): Promise<T> {
    const key = `invoice-series:${series}`
    const token = randomUUID()
    for (let attempt = 0; (await this.redis.set(key, token, 'PX', this.ttlMs, 'NX')) !== 'OK'; attempt++) {
      if (attempt >= this.maxAttempts) throw new SeriesLockedError(series)
      await sleep(50 + Math.random() * 100)
    }
    try {
      return await task()
    } finally {
      await this.redis.eval(UNLOCK, 1, key, token).catch(() => undefined)
    }
  }
}

export interface InvoiceDraft {
  series: string
  customerId: string
  lines: { description: string; cents: number }[]
}

export class InvoiceIssuer {
  constructor(
    private readonly prisma: PrismaClient,
    private readonly lock: SeriesLock,
  ) {}

  async issue(draft: InvoiceDraft): Promise<{ id: string; number: number }> {
    return this.prisma.$transaction(
      async (tx) => {
        const customer = await tx.customer.findUniqueOrThrow({ where: { id: draft.customerId } })

        const invoice = await this.lock.run(draft.series, async () => {
          const number = await this.nextNumber(tx, draft.series)
          return tx.invoice.create({
            data: { series: draft.series, number, customerId: customer.id, address: customer.address },
          })
        })

        await tx.invoiceLine.createMany({
          data: draft.lines.map((line) => ({ ...line, invoiceId: invoice.id })),
        })
        await tx.customer.update({ where: { id: customer.id }, data: { lastInvoicedAt: new Date() } })

        return { id: invoice.id, number: invoice.number }
      },
      { timeout: 15_000 },
    )
  }

  private async nextNumber(tx: Prisma.TransactionClient, series: string): Promise<number> {
    const last = await tx.invoice.findFirst({
      where: { series },
      orderBy: { number: 'desc' },
      select: { number: true },
    })
    return (last?.number ?? 0) + 1
  }
}
