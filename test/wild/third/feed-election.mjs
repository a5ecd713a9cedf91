import { randomUUID } from 'node:crypto'
import { EventEmitter } from 'node:events'
import { Redis } from 'ioredis'

const HOLD = `
local owner = redis.call('GET', KEYS[1])
if owner == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
if owner then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`

const RESIGN = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`

/**
 * Which of the feed servers polls the exchange.
 * Emits 'elected' and 'resigned'. Ask `isLeader` before every poll.
 */
export class FeedElection extends EventEmitter {
  #redis
  #key
  #lease
  #margin
  #id = null
  #until = 0
  #leading = false
  #running = false
  #fuse
  #timer
  #round = Promise.resolve()

  constructor({ url = process.env.REDIS_URL, key = 'feed:leader', leaseMs = 6000 } = {}) {
    super()
    this.#redis = new Redis(url ?? 'redis://127.0.0.1:6379', { maxRetriesPerRequest: 1 })
    this.#redis.on('error', () => {})
    this.#key = key
    this.#lease = leaseMs
    this.#margin = Math.ceil(leaseMs * 0.03)
  }

  get isLeader() {
    return this.#leading && performance.now() < this.#until
  }

  start() {
    if (this.#running) return
    this.#running = true
    this.#tick()
  }

  async stop() {
    this.#running = false
    clearTimeout(this.#timer)
    await this.#round
    const id = this.#id
    this.#resign()
    if (id) await this.#redis.eval(RESIGN, 1, this.#key, id).catch(() => {})
  }

  #tick() {
    this.#round = this.#stand().catch(() => {})
    this.#round.then(() => {
      if (this.#running) this.#timer = setTimeout(() => this.#tick(), this.#lease / 4 + Math.random() * 200)
    })
  }

  async #stand() {
    if (!this.isLeader) {
      this.#resign()
      this.#id = randomUUID()
    }
    const id = this.#id
    const asked = performance.now()
    const mine = await this.#redis.eval(HOLD, 1, this.#key, id, this.#lease)
    const until = asked + this.#lease - this.#margin
    if (id !== this.#id || mine !== 1 || performance.now() >= until) {
      this.#resign()
      if (mine === 1) await this.#redis.eval(RESIGN, 1, this.#key, id)
      return
    }

    this.#until = until
    clearTimeout(this.#fuse)
    this.#fuse = setTimeout(() => this.#resign(), until - performance.now())
    if (!this.#leading) {
      this.#leading = true
      this.emit('elected')
    }
  }

  #resign() {
    clearTimeout(this.#fuse)
    this.#id = null
    if (!this.#leading) return
    this.#leading = false
    this.emit('resigned')
  }
}
