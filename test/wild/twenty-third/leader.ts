import { EventEmitter } from 'node:events'
import { randomUUID } from 'node:crypto'
import { performance } from 'node:perf_hooks'
import type { Redis } from 'ioredis'

// take the seat if it is empty, keep it if it is ours
const CLAIM = `
local v = redis.call('get', KEYS[1])
if not v then
  redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
if v == ARGV[1] then
  redis.call('pexpire', KEYS[1], ARGV[2])
  return 1
end
return 0`

const MARGIN = 250

/**
 * Events: 'elected', 'deposed', 'warn'.
 * Besides listening to 'deposed', workers ask isLeader() in front of every write.
 */
export class LeaderElection extends EventEmitter {
  readonly id = randomUUID()
  #redis: Redis
  #key: string
  #ttl: number
  #leading = false
  #until = 0
  #stopped = false
  #roundTimer: NodeJS.Timeout | undefined
  #stepDownTimer: NodeJS.Timeout | undefined

  constructor(redis: Redis, name: string, ttl = 10_000) {
    super()
    this.#redis = redis
    this.#key = `leader:${name}`
    this.#ttl = ttl
  }

  start() {
    void this.#round()
    return this
  }

  /** We do not delete the key: whoever is still winding down gets the rest of the term. */
  stop() {
    this.#stopped = true
    clearTimeout(this.#roundTimer)
    this.#depose()
  }

  isLeader() {
    return this.#leading && performance.now() < this.#until
  }

  async #round() {
    try {
      const won = await this.#redis.eval(CLAIM, 1, this.#key, this.id, this.#ttl)
      if (this.#stopped) return
      if (won === 1) this.#seat()
      else this.#depose()
    } catch (err) {
      // could not ask; the current term just runs out if this goes on
      this.emit('warn', err)
    }
    if (!this.#stopped) {
      this.#roundTimer = setTimeout(() => void this.#round(), this.#ttl / 4)
    }
  }

  #seat() {
    const term = this.#ttl - MARGIN
    this.#until = performance.now() + term
    clearTimeout(this.#stepDownTimer)
    this.#stepDownTimer = setTimeout(() => this.#depose(), term)
    if (!this.#leading) {
      this.#leading = true
      this.emit('elected', this.id)
    }
  }

  #depose() {
    clearTimeout(this.#stepDownTimer)
    this.#until = 0
    if (!this.#leading) return
    this.#leading = false
    this.emit('deposed', this.id)
  }
}
