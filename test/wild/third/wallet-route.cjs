'use strict'

const { randomUUID } = require('node:crypto')
const Redis = require('ioredis')

const redis = new Redis(process.env.REDIS_URL)
redis.on('error', (err) => console.error('[wallet-route]', err.message))

const TTL = Number(process.env.WALLET_LOCK_MS || 8000)

const UNLOCK = [
  'if redis.call("GET", KEYS[1]) == ARGV[1] then',
  '  return redis.call("DEL", KEYS[1])',
  'end',
  'return 0',
].join('\n')

/**
 * Express: app.post('/wallet/:userId/withdraw', oneAtATime(async (req, res) => { ... }))
 * The handler has to look at req.lockSignal before it books anything.
 */
function oneAtATime(handler) {
  return async function lockedHandler(req, res, next) {
    const key = `wallet:${req.params.userId}:busy`
    const token = randomUUID()
    const unlock = () => redis.eval(UNLOCK, 1, key, token).catch(() => 0)

    const t0 = performance.now()
    let answer
    try {
      answer = await redis.set(key, token, 'PX', TTL, 'NX')
    } catch (err) {
      await unlock()
      return next(err)
    }
    if (answer !== 'OK') {
      return res.status(429).json({ error: 'another withdrawal is running' })
    }

    const left = t0 + TTL - 200 - performance.now()
    if (left <= 0) {
      await unlock()
      return res.status(503).json({ error: 'try again' })
    }

    const controller = new AbortController()
    const timer = setTimeout(() => controller.abort(new Error('wallet lock expired')), left)
    req.lockSignal = controller.signal
    try {
      await handler(req, res, next)
    } catch (err) {
      next(err)
    } finally {
      clearTimeout(timer)
      await unlock()
    }
  }
}

module.exports = oneAtATime
