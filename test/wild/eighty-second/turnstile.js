'use strict'

const { randomBytes } = require('crypto')
const { setTimeout: sleep } = require('timers/promises')

const lua = {
  turnstileEnter: `
    local t = redis.call('TIME')
    local now = t[1] * 1000 + math.floor(t[2] / 1000)
    redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
    if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
    redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[1])
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
    return 1`,
  turnstileLeave: `return redis.call('ZREM', KEYS[1], ARGV[1])`,
}

const install = (redis) => {
  for (const [name, script] of Object.entries(lua)) {
    if (!redis[name]) redis.defineCommand(name, { numberOfKeys: 1, lua: script })
  }
  return redis
}

class TurnstileFull extends Error {}

// A slot is not renewed: ttl has to exceed the longest call that goes through.
const turnstile = (client, { slots, ttl = 30000, patience = 5000 }) => {
  const redis = install(client)

  return (name) => {
    const key = `turnstile:${name}`

    const enter = async (id) => {
      const until = Date.now() + patience
      for (let pause = 20; ; pause = Math.min(pause * 1.7, 400)) {
        if (await redis.turnstileEnter(key, id, slots, ttl)) return
        if (Date.now() + pause > until) throw new TurnstileFull(`${name}: all ${slots} slots are taken`)
        await sleep(pause * (0.5 + Math.random()))
      }
    }

    return async (fn) => {
      const id = randomBytes(12).toString('hex')
      await enter(id)
      try {
        return await fn()
      } finally {
        await redis.turnstileLeave(key, id).catch(() => {})
      }
    }
  }
}

const geocoder = (redis, apiKey) => {
  const through = turnstile(redis, { slots: 6, ttl: 30000 })('geocoder')

  return (address) =>
    through(async () => {
      const url = new URL('https://geo.example.com/v1/search')
      url.search = new URLSearchParams({ q: address, key: apiKey })
      const res = await fetch(url, { signal: AbortSignal.timeout(8000) })
      if (!res.ok) throw new Error(`geocoder answered ${res.status}`)
      const { features } = await res.json()
      return features.map(({ lat, lon }) => ({ lat, lon }))
    })
}

module.exports = { turnstile, geocoder, TurnstileFull }
