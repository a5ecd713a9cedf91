'use strict'

const { randomUUID } = require('node:crypto')

const DROP = 'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end'
const KEEP =
  'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) else return 0 end'

/**
 * Keeps what this process has leased.
 *
 * @param {import('iovalkey').Redis} valkey
 * @param {{ ttl?: number, prefix?: string }} [options]
 */
function createLeases(valkey, { ttl = 10_000, prefix = 'lease:' } = {}) {
  /** @type {Map<string, { key: string, validUntil: number }>} */
  const held = new Map()
  const slack = Math.ceil(ttl * 0.02) + 2

  /** @returns {Promise<string | null>} the id of the lease */
  async function take(name) {
    const id = randomUUID()
    const key = prefix + name
    const asked = performance.now()
    const answer = await valkey.set(key, id, 'PX', ttl, 'NX')
    if (answer !== 'OK') return null
    const validUntil = asked + ttl - slack
    if (performance.now() >= validUntil) {
      await valkey.eval(DROP, 1, key, id)
      return null
    }
    held.set(id, { key, validUntil })
    return id
  }

  /** How long the lease is still safe to use, in ms; 0 if it is over. */
  function remaining(id) {
    const lease = held.get(id)
    return lease ? Math.max(0, lease.validUntil - performance.now()) : 0
  }

  /** @returns {Promise<boolean>} whether the lease goes on */
  async function renew(id) {
    const lease = held.get(id)
    if (!lease || remaining(id) === 0) return false
    const asked = performance.now()
    const kept = await valkey.eval(KEEP, 1, lease.key, id, ttl)
    if (kept !== 1) {
      held.delete(id)
      return false
    }
    lease.validUntil = asked + ttl - slack
    return remaining(id) > 0
  }

  async function drop(id) {
    const lease = held.get(id)
    if (!lease) return false
    held.delete(id)
    return (await valkey.eval(DROP, 1, lease.key, id)) === 1
  }

  async function dropAll() {
    await Promise.allSettled([...held.keys()].map(drop))
  }

  return { take, renew, drop, dropAll, remaining }
}

module.exports = { createLeases }
