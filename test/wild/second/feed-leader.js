import Redis from 'iovalkey'
import { randomUUID } from 'node:crypto'

const LEASE = 10_000

export class FeedLeader {
  constructor(redis = new Redis(process.env.VALKEY_URL ?? 'redis://localhost:6379')) {
    this.redis = redis
    this.id = randomUUID()
    this.leader = false
  }

  start() {
    this.tick()
    this.timer = setInterval(() => this.tick(), LEASE / 4)
  }

  async tick() {
    try {
      if (this.leader) {
        const n = await this.redis.eval(
          "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end",
          1,
          'feed:leader',
          this.id,
          LEASE,
        )
        this.leader = n === 1
      } else {
        this.leader = (await this.redis.set('feed:leader', this.id, 'PX', LEASE, 'NX')) === 'OK'
      }
    } catch (err) {
      console.warn('leader tick failed, retrying in', LEASE / 4, err.message)
    }
  }

  isLeader() {
    return this.leader
  }

  async stop() {
    clearInterval(this.timer)
    if (!this.leader) return
    this.leader = false
    await this.redis.eval(
      "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
      1,
      'feed:leader',
      this.id,
    )
  }
}
