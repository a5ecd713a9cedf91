'use strict'

const net = require('node:net')

const HOST = process.env.REDIS_HOST || '127.0.0.1'
const PORT = Number(process.env.REDIS_PORT || 6379)
const FREE = 'if redis.call("GET",KEYS[1])==ARGV[1] then return redis.call("DEL",KEYS[1]) end return 0'

const encode = (args) => args.reduce((out, arg) => `${out}$${Buffer.byteLength(String(arg))}\r\n${arg}\r\n`, `*${args.length}\r\n`)

/** One connection for one command. All answers that we ask for are one line. */
function command(...args) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(PORT, HOST, () => socket.write(encode(args)))
    let text = ''
    socket.setEncoding('utf8')
    socket.setTimeout(3000, () => socket.destroy(new Error('redis timed out')))
    socket.on('error', reject)
    socket.on('close', () => reject(new Error('redis closed the connection')))
    socket.on('data', (chunk) => {
      text += chunk
      if (!text.endsWith('\r\n')) return
      socket.end()
      const line = text.slice(0, -2)
      if (line.startsWith('-')) reject(new Error(line.slice(1)))
      else resolve(line)
    })
  })
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

/** Waits up to `waitMs` for the room. Gives a stamp for `unlockRoom`, or null. */
async function lockRoom(room, ttlMs = 5000, waitMs = 10000) {
  const stamp = String(Date.now())
  const end = performance.now() + waitMs
  do {
    const answer = await command('SET', `room:${room}`, stamp, 'NX', 'PX', ttlMs)
    if (answer === '+OK') return stamp
    await sleep(100)
  } while (performance.now() < end)
  return null
}

async function unlockRoom(room, stamp) {
  const answer = await command('EVAL', FREE, 1, `room:${room}`, stamp)
  return answer === ':1'
}

module.exports = { lockRoom, unlockRoom }
