'use strict'

const { randomUUID } = require('node:crypto')

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`

class CacheLock {
  /** @param {import('ioredis').Redis} redis */
  constructor(redis, { ttl = 5000 } = {}) {
    this.redis = redis
    this.ttl = ttl
  }

  /**
   * Runs `refresh` unless another server is refreshing the entry already.
   * @returns {Promise<boolean>} whether it ran here
   */
  async refreshOnce(entry, refresh) {
    const key = `cache:${entry}:lock`
    const token = randomUUID()

    const acquired = this.redis.set(key, token, 'PX', this.ttl, 'NX')
    if (!acquired) return false

    try {
      await refresh()
      return true
    } finally {
      await this.redis.eval(RELEASE, 1, key, token)
    }
  }
}

module.exports = { CacheLock }
