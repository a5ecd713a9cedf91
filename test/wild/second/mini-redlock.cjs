const crypto = require('crypto')

const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"

class MiniRedlock {
  constructor(clients, options = {}) {
    this.clients = clients
    this.quorum = Math.floor(clients.length / 2) + 1
    this.retryDelay = options.retryDelay || 150
    this.retryCount = options.retryCount || 20
    this.nodeTimeout = options.nodeTimeout || 100
  }

  _ask(promise) {
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(null), this.nodeTimeout)
      promise.then(
        (v) => { clearTimeout(timer); resolve(v) },
        () => { clearTimeout(timer); resolve(null) }
      )
    })
  }

  async lock(resource, ttl) {
    for (let i = 0; i < this.retryCount; i++) {
      const value = crypto.randomBytes(20).toString('hex')
      const start = Date.now()
      const replies = await Promise.all(
        this.clients.map((c) => this._ask(c.set(resource, value, 'PX', ttl, 'NX')))
      )
      const votes = replies.filter((r) => r === 'OK').length
      const expires = start + ttl - Math.floor(ttl * 0.01) - 2

      if (votes >= this.quorum && Date.now() < expires) {
        return { resource, value, expires }
      }
      // not enough: wait a bit and try again, single keys go away by their ttl
      await new Promise((r) => setTimeout(r, this.retryDelay + Math.random() * this.retryDelay))
    }
    throw new Error('MiniRedlock: could not lock ' + resource)
  }

  async unlock(lock) {
    await Promise.all(this.clients.map((c) => this._ask(c.eval(RELEASE, 1, lock.resource, lock.value))))
  }
}

module.exports = MiniRedlock
