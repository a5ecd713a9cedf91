const { randomUUID } = require('node:crypto')
const { performance } = require('node:perf_hooks')
const { setTimeout: pause } = require('node:timers/promises')

// Permits are members of a sorted set, scored with the time they run out
// (Redis' own clock, not ours).
const NOW = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
`

const scripts = {
  permitTake: `${NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZSCORE', KEYS[1], ARGV[1]) or redis.call('ZCARD', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
  return 1
end
return 0`,

  permitKeep: `${NOW}
local ends = redis.call('ZSCORE', KEYS[1], ARGV[1])
if ends and tonumber(ends) > now then
  redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
return 0`,

  permitDrop: `return redis.call('ZREM', KEYS[1], ARGV[1])`,
}

class NoPermitError extends Error {
  constructor(vendor) {
    super(`all connections to ${vendor} are taken`)
    this.name = 'NoPermitError'
    this.status = 503
  }
}

function setup(redis) {
  for (const [name, lua] of Object.entries(scripts)) {
    redis.defineCommand(name, { numberOfKeys: 1, lua })
  }

  const drop = (key, id) => redis.permitDrop(key, id).catch(() => {})

  async function take(vendor, key, id, { limit, leaseMs, waitMs }) {
    const giveUpAt = performance.now() + waitMs
    for (;;) {
      const sentAt = performance.now()
      let got
      try {
        got = await redis.permitTake(key, id, limit, leaseMs)
      } catch (err) {
        drop(key, id)
        throw err
      }
      if (got === 1) {
        if (performance.now() - sentAt < leaseMs / 2) return sentAt
        await drop(key, id)
      }
      if (performance.now() >= giveUpAt) throw new NoPermitError(vendor)
      await pause(100 + Math.random() * 150)
    }
  }

  /**
   * Runs fn with one of `limit` permits for the vendor. fn gets a signal and has
   * to hand it to fetch: it fires when the permit cannot be kept.
   */
  async function withPermit(vendor, opts, fn) {
    const { leaseMs = 30000 } = opts
    const key = `sem:${vendor}`
    const id = randomUUID()
    const aborter = new AbortController()

    let lastKept = await take(vendor, key, id, { limit: 5, waitMs: 10000, ...opts, leaseMs })

    const step = leaseMs / 5
    const timer = setInterval(async () => {
      const sentAt = performance.now()
      if (sentAt - lastKept >= leaseMs - step) {
        aborter.abort(new Error(`permit for ${vendor} ran out`))
        return
      }
      try {
        if ((await redis.permitKeep(key, id, leaseMs)) === 1) lastKept = Math.max(lastKept, sentAt)
        else aborter.abort(new Error(`permit for ${vendor} is gone`))
      } catch {
        // the check above decides, next round
      }
    }, step)

    try {
      return await fn(aborter.signal)
    } finally {
      clearInterval(timer)
      await drop(key, id)
    }
  }

  return { withPermit }
}

module.exports = { setup, NoPermitError }
