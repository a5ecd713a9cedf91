'use strict'

const { EventEmitter } = require('events')
const { randomUUID } = require('crypto')
const { hostname } = require('os')

const EXTEND = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end
return 0`

const ABDICATE = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`

const chieftain = (redis, tribe, { term = 9000 } = {}) => {
  const bus = new EventEmitter()
  const key = `chieftain:${tribe}`
  const me = `${hostname()}/${randomUUID()}`
  let reigning = false
  let timer = null
  let ended = false

  const become = (next) => {
    if (reigning === next) return
    reigning = next
    bus.emit(next ? 'reign' : 'fall', me)
  }

  const stand = async () => (await redis.set(key, me, 'PX', term, 'NX')) === 'OK'
  const stay = async () => (await redis.eval(EXTEND, 1, key, me, term)) === 1

  const round = async () => {
    try {
      const next = reigning ? await stay() : await stand()
      if (!ended) become(next)
    } catch (err) {
      bus.emit('trouble', err)
    }
    if (!ended) timer = setTimeout(round, term / 3)
  }

  return Object.assign(bus, {
    isReigning: () => reigning,
    begin: () => (round(), bus),
    end: async () => {
      ended = true
      clearTimeout(timer)
      if (!reigning) return
      become(false)
      await redis.eval(ABDICATE, 1, key, me)
    },
  })
}

const scheduler = (redis, jobs) => {
  const chief = chieftain(redis, 'scheduler')
  const timers = new Set()

  chief.on('reign', () => {
    for (const { every, run } of jobs) timers.add(setInterval(() => run().catch(console.error), every))
  })
  chief.on('fall', () => {
    timers.forEach(clearInterval)
    timers.clear()
  })
  chief.on('trouble', (err) => console.warn('[scheduler] %s', err.message))

  return chief.begin()
}

module.exports = { chieftain, scheduler }
