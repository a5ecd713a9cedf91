import { randomUUID } from 'node:crypto'
import { connect, type Socket } from 'node:net'

type Reply = string | number | null

interface Pending {
  resolve(reply: Reply): void
  reject(err: Error): void
}

const CRLF = '\r\n'
const FREE = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0"

/** As much of a client as a mutex needs. The image of the edge boxes has no room for a real one. */
class Wire {
  private socket: Socket | undefined
  private buffer = Buffer.alloc(0)
  private pending: Pending[] = []

  constructor(
    private readonly host: string,
    private readonly port: number,
  ) {}

  send(...args: (string | number)[]): Promise<Reply> {
    const parts = args.map(String)
    const text = `*${parts.length}${CRLF}${parts.map((p) => `$${Buffer.byteLength(p)}${CRLF}${p}${CRLF}`).join('')}`
    return new Promise((resolve, reject) => {
      const socket = this.open()
      this.pending.push({ resolve, reject })
      socket.write(text)
    })
  }

  close(): void {
    this.socket?.end()
  }

  private open(): Socket {
    if (this.socket) return this.socket
    const socket = connect(this.port, this.host)
    socket.setNoDelay(true)
    socket.on('data', (chunk) => {
      if (socket !== this.socket) return
      this.buffer = Buffer.concat([this.buffer, chunk])
      this.parse()
    })
    socket.on('error', (err) => this.fail(socket, err))
    socket.on('close', () => this.fail(socket, new Error('connection closed')))
    this.socket = socket
    return socket
  }

  private fail(socket: Socket, err: Error): void {
    if (socket !== this.socket) return
    socket.destroy()
    this.socket = undefined
    this.buffer = Buffer.alloc(0)
    const lost = this.pending
    this.pending = []
    for (const p of lost) p.reject(err)
  }

  private parse(): void {
    for (;;) {
      const eol = this.buffer.indexOf(CRLF)
      if (eol < 0) return
      const head = this.buffer.toString('utf8', 1, eol)
      const kind = String.fromCharCode(this.buffer[0] ?? 0)
      let end = eol + 2
      let reply: Reply | Error
      if (kind === '+') reply = head
      else if (kind === '-') reply = new Error(head)
      else if (kind === ':') reply = Number(head)
      else if (head === '-1') reply = null
      else {
        end = eol + 2 + Number(head) + 2
        if (this.buffer.length < end) return
        reply = this.buffer.toString('utf8', eol + 2, end - 2)
      }
      this.buffer = this.buffer.subarray(end)
      const next = this.pending.shift()
      if (reply instanceof Error) next?.reject(reply)
      else next?.resolve(reply)
    }
  }
}

export interface Held {
  readonly key: string
  readonly token: string
  /** on the clock of performance.now() */
  readonly validUntil: number
}

export class SocketMutex {
  private readonly wire: Wire

  constructor(host = process.env.REDIS_HOST ?? '127.0.0.1', port = Number(process.env.REDIS_PORT ?? 6379)) {
    this.wire = new Wire(host, port)
  }

  async lock(resource: string, ttlMs: number): Promise<Held | undefined> {
    const key = `box:${resource}`
    const token = randomUUID()
    const start = performance.now()
    const reply = await this.wire.send('SET', key, token, 'NX', 'PX', ttlMs)
    if (reply !== 'OK') return undefined
    const held = { key, token, validUntil: start + ttlMs - Math.ceil(ttlMs / 100) - 3 }
    if (performance.now() < held.validUntil) return held
    await this.unlock(held)
    return undefined
  }

  async unlock({ key, token }: Held): Promise<boolean> {
    return (await this.wire.send('EVAL', FREE, 1, key, token)) === 1
  }

  close(): void {
    this.wire.close()
  }
}
