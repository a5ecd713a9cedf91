import { randomUUID } from 'node:crypto'
import { WatchError, createClientPool } from 'redis'

const UNLOCK = `
local held = redis.call('GET', KEYS[1])
if held == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`

export class InvoiceNumberError extends Error {}

/** Invoice numbers must have no gaps, so number and invoice are stored together. */
export async function createInvoiceNumbers({ url = process.env.REDIS_URL, lockMs = 8_000 } = {}) {
  const pool = createClientPool(
    { url, pingInterval: 2_000, socket: { connectTimeout: 2_000, socketTimeout: 5_000 } },
    { minimum: 1, maximum: 8, acquireTimeout: 3_000 },
  )
  pool.on('error', (err) => console.error('[invoice-numbers]', err))
  await pool.connect()

  async function store(tenant, lockKey, token, order) {
    const counter = `invoices:${tenant}:last`
    const byOrder = `invoices:${tenant}:order:${order.id}`

    return pool.execute(async (client) => {
      await client.watch([lockKey, counter, byOrder])
      let watching = true
      try {
        const [holder, known, last] = await Promise.all([
          client.get(lockKey),
          client.get(byOrder),
          client.get(counter),
        ])
        if (known !== null) return Number(known)
        if (holder !== token) throw new InvoiceNumberError(`lost the turn for ${tenant}`)

        const number = Number(last ?? 0) + 1
        const tx = client
          .multi()
          .set(counter, String(number))
          .set(byOrder, String(number))
          .hSet(`invoices:${tenant}:${number}`, {
            order: String(order.id),
            customer: String(order.customerId),
            total: String(order.totalCents),
            issuedAt: new Date().toISOString(),
          })
        watching = false
        await tx.exec()
        return number
      } finally {
        if (watching) await client.unwatch()
      }
    })
  }

  return {
    async issue(tenant, order) {
      const lockKey = `invoices:${tenant}:lock`
      const token = randomUUID()
      try {
        const taken = await pool.set(lockKey, token, { NX: true, PX: lockMs })
        if (taken === null) throw new InvoiceNumberError(`${tenant} is issuing another invoice`)
        return await store(tenant, lockKey, token, order)
      } catch (err) {
        if (err instanceof WatchError) throw new InvoiceNumberError(`lost the turn for ${tenant}`, { cause: err })
        throw err
      } finally {
        await pool
          .eval(UNLOCK, { keys: [lockKey], arguments: [token] })
          .catch((err) => console.warn('[invoice-numbers] unlock failed', err))
      }
    },
    close: () => pool.close(),
  }
}
