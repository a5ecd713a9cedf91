// Zero dependency lock for the edge boxes (no node_modules there).
import net from 'node:net'
import { randomBytes } from 'node:crypto'

const host = process.env.REDIS_HOST ?? '127.0.0.1'
const port = Number(process.env.REDIS_PORT ?? 6379)
const COMMAND_TIMEOUT = 1000

class Resp {
  #sock = null
  #buf = Buffer.alloc(0)
  #queue = []

  #connect() {
    if (this.#sock) return
    const s = net.connect({ host, port })
    s.setNoDelay(true)
    s.on('data', (d) => {
      if (s !== this.#sock) return
      this.#buf = Buffer.concat([this.#buf, d])
      this.#drain()
    })
    s.on('error', (e) => this.#fail(s, e))
    s.on('close', () => this.#fail(s, new Error('connection closed')))
    this.#sock = s
  }

  #fail(sock, err) {
    if (this.#sock !== sock) return
    this.#sock = null
    this.#buf = Buffer.alloc(0)
    sock.destroy()
    for (const p of this.#queue.splice(0)) {
      clearTimeout(p.timer)
      p.reject(err)
    }
  }

  #parse(at = 0) {
    const eol = this.#buf.indexOf('\r\n', at)
    if (eol < 0) return null
    const head = this.#buf.toString('utf8', at + 1, eol)
    const next = eol + 2
    switch (String.fromCharCode(this.#buf[at])) {
      case '+':
        return { value: head, next }
      case '-':
        return { value: new Error(head), next }
      case ':':
        return { value: Number(head), next }
      case '$': {
        const len = Number(head)
        if (len < 0) return { value: null, next }
        if (this.#buf.length < next + len + 2) return null
        return { value: this.#buf.toString('utf8', next, next + len), next: next + len + 2 }
      }
      default:
        return { value: new Error('unexpected reply'), next }
    }
  }

  #drain() {
    for (;;) {
      const r = this.#parse()
      if (!r) return
      this.#buf = this.#buf.subarray(r.next)
      const p = this.#queue.shift()
      if (!p) continue
      clearTimeout(p.timer)
      if (r.value instanceof Error) p.reject(r.value)
      else p.resolve(r.value)
    }
  }

  send(...args) {
    this.#connect()
    const sock = this.#sock
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.#fail(sock, new Error(`timeout: ${args[0]}`)), COMMAND_TIMEOUT)
      this.#queue.push({ resolve, reject, timer })
      let out = `*${args.length}\r\n`
      for (const a of args) {
        const s = String(a)
        out += `$${Buffer.byteLength(s)}\r\n${s}\r\n`
      }
      sock.write(out)
    })
  }

  end() {
    this.#sock?.end()
  }
}

const conn = new Resp()

const UNLOCK = "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) end return 0"

/** Resolves to a lock or null. The lock is good until `lock.deadline` (performance.now() clock). */
export async function tryLock(key, ttl) {
  const token = randomBytes(16).toString('hex')
  const t0 = performance.now()
  let reply
  try {
    reply = await conn.send('SET', key, token, 'NX', 'PX', ttl)
  } catch (err) {
    await unlock({ key, token }).catch(() => {})
    throw err
  }
  if (reply !== 'OK') return null
  const deadline = t0 + ttl * 0.98 - 2
  if (performance.now() >= deadline) {
    await unlock({ key, token }).catch(() => {})
    return null
  }
  return { key, token, deadline }
}

export async function unlock({ key, token }) {
  return (await conn.send('EVAL', UNLOCK, 1, key, token)) === 1
}

export function close() {
  conn.end()
}
