import { EventEmitter } from 'node:events'
import { randomUUID } from 'node:crypto'
import { performance } from 'node:perf_hooks'

const CLAIM = `
local held = redis.call('GET', KEYS[1])
if held == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
if not held then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
return 0`

const RESIGN = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`

/**
 * const podium = new Podium(client, 'outbox')
 * podium.on('elected', (signal) => drainOutbox(signal))
 * podium.start()
 */
export class Podium extends EventEmitter {
  #client
  #key
  #token = randomUUID()
  #ttl
  #grace
  #term = null
  #fuse = null
  #timer = null
  #inflight = Promise.resolve()
  #started = false
  #stopped = false

  constructor(client, topic, { ttl = 12_000, grace = 3_000 } = {}) {
    super()
    this.#client = client
    this.#key = `podium:${topic}`
    this.#ttl = ttl
    this.#grace = grace
  }

  get leading() {
    return this.#term !== null
  }

  start() {
    if (this.#stopped) throw new Error('a stopped podium cannot be started again')
    if (!this.#started) {
      this.#started = true
      this.#loop()
    }
    return this
  }

  async stop() {
    this.#stopped = true
    clearTimeout(this.#timer)
    this.#demote('stopped')
    await this.#inflight
    await this.#client.eval(RESIGN, { keys: [this.#key], arguments: [this.#token] }).catch((err) => this.emit('warning', err))
  }

  #loop = () => {
    this.#inflight = this.#claim().finally(() => {
      if (!this.#stopped) this.#timer = setTimeout(this.#loop, this.#ttl / 4 + Math.random() * 200)
    })
  }

  async #claim() {
    const asked = performance.now()
    try {
      const won = await this.#client.eval(CLAIM, { keys: [this.#key], arguments: [this.#token, String(this.#ttl)] })
      if (won !== 1) return this.#demote('outvoted')
      const left = asked + this.#ttl - this.#grace - performance.now()
      if (left > 0 && !this.#stopped) this.#promote(left)
    } catch (err) {
      this.emit('warning', err)
    }
  }

  #promote(left) {
    clearTimeout(this.#fuse)
    this.#fuse = setTimeout(() => this.#demote('unconfirmed'), left)
    if (this.#term) return
    this.#term = new AbortController()
    this.emit('elected', this.#term.signal)
  }

  #demote(reason) {
    clearTimeout(this.#fuse)
    const term = this.#term
    if (!term) return
    this.#term = null
    term.abort(new Error(reason))
    this.emit('demoted', reason)
  }
}
