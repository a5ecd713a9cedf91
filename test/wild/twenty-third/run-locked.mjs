#!/usr/bin/env node
// run-locked <name> <ttl-seconds> <command> [args...]
// Runs the command if nobody else runs one under the same name. Exit 75 = held elsewhere.
// The command is stopped before the lock can run out, by coreutils' timeout, so also when
// this script is killed (then the lock simply stays until its TTL).
// The command must not leave anything running in the background.
// LOCK_FENCE in the command's environment grows with every grant.
import net from 'node:net'
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'

const HOST = process.env.REDIS_HOST ?? '127.0.0.1'
const PORT = Number(process.env.REDIS_PORT ?? 6379)
const PASSWORD = process.env.REDIS_PASSWORD
const MARGIN = 3_000

const GRAB = `if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('incr', KEYS[2])
end
return false`
const DROP = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`

const encode = args => `*${args.length}\r\n` + args.map(a => `$${Buffer.byteLength(a)}\r\n${a}\r\n`).join('')

// One connection per command. All answers we can get here are single lines.
function redis(...args) {
  const cmds = PASSWORD ? [['AUTH', PASSWORD], args] : [args]
  return new Promise((resolve, reject) => {
    let text = ''
    const s = net.connect(PORT, HOST)
    s.setEncoding('utf8')
    s.setTimeout(4_000, () => s.destroy(new Error('redis does not answer')))
    s.on('connect', () => s.write(cmds.map(encode).join('')))
    s.on('data', chunk => {
      text += chunk
      const lines = text.split('\r\n')
      if (lines.length <= cmds.length) return
      const bad = lines.slice(0, cmds.length).find(l => l.startsWith('-'))
      if (bad) reject(new Error(bad.slice(1)))
      else resolve(lines[cmds.length - 1])
      s.end()
    })
    s.on('error', reject)
    s.on('close', () => reject(new Error('redis closed the connection')))
  })
}

const [name, ttlArg, ...command] = process.argv.slice(2)
const ttl = Math.round(Number(ttlArg) * 1000)
if (!name || !(ttl >= 10_000) || command.length === 0) {
  console.error('usage: run-locked <name> <ttl-seconds, at least 10> <command> [args...]')
  process.exit(64)
}

const key = `lock:{${name}}`
const token = randomUUID()
const drop = () =>
  redis('EVAL', DROP, '1', key, token).catch(err => console.error('lock left to its TTL:', err.message))

const asked = performance.now()
const grant = await redis('EVAL', GRAB, '2', key, `${key}:fence`, token, String(ttl)).catch(err => {
  console.error(err.message)
  process.exit(69)
})
if (!grant.startsWith(':')) {
  console.error(`${name} is running elsewhere`)
  process.exit(75)
}

const seconds = Math.floor((ttl - MARGIN - (performance.now() - asked)) / 1000)
if (seconds < 1) {
  await drop()
  process.exit(69)
}

const child = spawn('timeout', ['-s', 'KILL', String(seconds), ...command], {
  stdio: 'inherit',
  env: { ...process.env, LOCK_FENCE: grant.slice(1) },
})
const code = await new Promise(done => {
  child.on('error', () => done(127))
  child.on('exit', done)
})

// null: killed by a signal. Something of it might still be around, so let the TTL decide.
if (code !== null) await drop()
process.exit(code ?? 137)
