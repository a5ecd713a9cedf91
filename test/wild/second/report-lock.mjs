import { randomUUID } from 'node:crypto'
import { createClient } from 'redis'

const TTL = Number(process.env.REPORT_LOCK_TTL ?? 30) // seconds

export class ReportLock {
  #clients
  #quorum

  constructor(clients) {
    this.#clients = clients
    this.#quorum = Math.floor(clients.length / 2) + 1
  }

  static async connect(urls = (process.env.REDIS_NODES ?? 'redis://a,redis://b,redis://c').split(',')) {
    const clients = urls.map((url) => createClient({ url }))
    for (const c of clients) c.on('error', () => {})
    await Promise.all(clients.map((c) => c.connect()))
    return new ReportLock(clients)
  }

  async acquire(reportId) {
    const key = `report:${reportId}`
    const token = randomUUID()
    const t = Date.now()
    const votes = await Promise.all(
      this.#clients.map((c) =>
        this.#quick(c.set(key, token, { condition: 'NX', expiration: { type: 'PX', value: TTL } })),
      ),
    )
    const validity = TTL * 1000 - (Date.now() - t) - TTL * 10 - 2
    if (votes.filter((v) => v === 'OK').length >= this.#quorum && validity > 0) {
      return { key, token, validUntil: Date.now() + validity }
    }
    await this.release({ key, token })
    return null
  }

  async release({ key, token }) {
    const script = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"
    await Promise.all(this.#clients.map((c) => this.#quick(c.eval(script, { keys: [key], arguments: [token] }))))
  }

  async #quick(promise, ms = 300) {
    let t
    const slow = new Promise((r) => { t = setTimeout(r, ms, null) })
    try {
      return await Promise.race([promise, slow])
    } catch {
      return null
    } finally {
      clearTimeout(t)
    }
  }
}
