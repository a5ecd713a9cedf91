import { randomUUID } from 'node:crypto'
import Valkey from 'iovalkey'

const valkey = new Valkey(process.env.VALKEY_URL ?? 'redis://localhost:6379', { commandTimeout: 1500 })

const TTL = 10_000
const MARGIN = 150

const release = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`
const renew = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end`

export class Lease implements AsyncDisposable {
  readonly #abort = new AbortController()
  #until: number
  #timer: NodeJS.Timeout
  #closed = false
  #pending: Promise<void> = Promise.resolve()

  constructor(
    readonly key: string,
    private readonly token: string,
    until: number,
  ) {
    this.#until = until
    this.#timer = setTimeout(() => this.#tick(), Math.max(0, Math.min(TTL / 4, until - Date.now())))
  }

  get signal() {
    return this.#abort.signal
  }

  /** throws when the lease is gone; call it before every write */
  check() {
    if (Date.now() >= this.#until) this.#lose()
    this.#abort.signal.throwIfAborted()
  }

  #lose() {
    if (!this.#abort.signal.aborted) this.#abort.abort(new Error(`lease ${this.key} lost`))
  }

  #tick() {
    if (this.#closed) return
    this.#pending = this.#renew().finally(() => {
      if (this.#closed || this.#abort.signal.aborted) return
      // never sleep past the end of the lease
      const left = this.#until - Date.now()
      this.#timer = setTimeout(() => this.#tick(), Math.max(0, Math.min(TTL / 4, left)))
    })
  }

  async #renew() {
    const sent = Date.now()
    if (sent >= this.#until) return this.#lose()
    const guard = setTimeout(() => this.#lose(), this.#until - sent)
    try {
      const n = await valkey.eval(renew, 1, this.key, this.token, TTL)
      if (n === 1) this.#until = Math.max(this.#until, sent + TTL - MARGIN)
      else this.#lose()
    } catch {
      // not known; try again while there is time
      await new Promise((r) => setTimeout(r, 100))
    } finally {
      clearTimeout(guard)
    }
    if (Date.now() >= this.#until) this.#lose()
  }

  async [Symbol.asyncDispose]() {
    this.#closed = true
    clearTimeout(this.#timer)
    await this.#pending
    await valkey.eval(release, 1, this.key, this.token).catch(() => {})
  }
}

export async function acquire(name: string, timeout = 5000): Promise<Lease> {
  const key = `mutex:{${name}}`
  const end = Date.now() + timeout
  while (true) {
    const token = randomUUID()
    const sent = Date.now()
    let ok = false
    try {
      ok = (await valkey.set(key, token, 'PX', TTL, 'NX')) === 'OK'
    } catch (e) {
      await valkey.eval(release, 1, key, token).catch(() => {})
      throw e
    }
    if (ok) {
      const until = sent + TTL - MARGIN
      if (Date.now() < until) return new Lease(key, token, until)
      await valkey.eval(release, 1, key, token).catch(() => {})
    }
    if (Date.now() > end) throw new Error(`timed out waiting for ${key}`)
    await new Promise((r) => setTimeout(r, 30 + Math.random() * 90))
  }
}

export async function rebuildSearchIndex(tenant: string, writeBatch: (n: number, s: AbortSignal) => Promise<boolean>) {
  await using lease = await acquire(`reindex:${tenant}`)
  for (let n = 0; ; n++) {
    lease.check()
    if (!(await writeBatch(n, lease.signal))) break
  }
}
