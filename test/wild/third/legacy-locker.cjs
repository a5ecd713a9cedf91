'use strict'

const crypto = require('crypto')

const COMPARE_DEL = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"

class Locker {
  /** @param {import('ioredis').Redis} client */
  constructor(client, prefix) {
    this.client = client
    this.prefix = prefix || 'locker:'
  }

  acquire(name, timeoutMs, cb) {
    const key = this.prefix + name
    const value = crypto.randomBytes(12).toString('hex')

    this.client.setnx(key, value, (err, created) => {
      if (err) return cb(err)
      if (created !== 1) return cb(null, null)

      this.client.pexpire(key, timeoutMs, (err) => {
        if (err) return cb(err)
        cb(null, { key, value })
      })
    })
  }

  release(lock, cb) {
    this.client.eval(COMPARE_DEL, 1, lock.key, lock.value, (err, n) => {
      cb(err, n === 1)
    })
  }
}

module.exports = Locker
