import { randomUUID } from 'node:crypto'
import Redis from 'iovalkey'

export interface WardenOptions {
  ttl?: number
  nodeTimeout?: number
  acquireTimeout?: number
}

type Work<T> = (signal: AbortSignal) => Promise<T> | T

const DEL = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end"
const PEXPIRE = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end"

export class Warden {
  private readonly ttl: number
  private readonly nodeTimeout: number
  private readonly acquireTimeout: number

  constructor(private readonly nodes: Redis[], o: WardenOptions = {}) {
    this.ttl = o.ttl ?? 6000
    this.nodeTimeout = o.nodeTimeout ?? 100
    this.acquireTimeout = o.acquireTimeout ?? 15_000
  }

  static fromEnv(env = process.env): Warden {
    const hosts = env.VALKEY_HOSTS ?? 'valkey-a:6379,valkey-b:6379,valkey-c:6379,valkey-d:6379,valkey-e:6379'
    const nodes = hosts.split(',').map((h) => {
      const [host, port] = h.split(':')
      return new Redis({ host, port: Number(port ?? 6379), maxRetriesPerRequest: 0 })
    })
    nodes.forEach((n) => n.on('error', () => {}))
    return new Warden(nodes)
  }

  async guard<T>(resource: string, work: Work<T>): Promise<T> {
    const held = await this.take(resource)
    const token = held.token
    let until = held.until

    const ac = new AbortController()
    const lose = () => ac.abort(new Error(`lost ${resource}`))
    let fuse = setTimeout(lose, until - Date.now())
    let done = false

    const keep = async () => {
      while (!done && !ac.signal.aborted) {
        await new Promise<void>((r) => {
          const t = setTimeout(r, this.ttl / 3)
          wake = () => {
            clearTimeout(t)
            r()
          }
        })
        if (done || ac.signal.aborted) return
        const start = Date.now()
        const yes = await this.count((n) => n.eval(PEXPIRE, 1, resource, token, this.ttl), 1)
        if (done || ac.signal.aborted) return
        if (yes >= this.majority) {
          until = start + this.ttl - this.drift
          clearTimeout(fuse)
          fuse = setTimeout(lose, Math.max(0, until - Date.now()))
        }
        // else: go on trying until the fuse blows
      }
    }
    let wake = () => {}
    const keeper = keep()

    try {
      const result = await work(ac.signal)
      if (ac.signal.aborted || Date.now() >= until) throw ac.signal.reason ?? new Error(`lost ${resource}`)
      return result
    } finally {
      done = true
      clearTimeout(fuse)
      wake()
      await keeper
      await this.drop(resource, token)
    }
  }

  private async take(resource: string): Promise<{ token: string; until: number }> {
    const end = Date.now() + this.acquireTimeout
    do {
      const token = randomUUID()
      const start = Date.now()
      const yes = await this.count((n) => n.set(resource, token, 'PX', this.ttl, 'NX'), 'OK')
      const until = start + this.ttl - this.drift
      if (yes >= this.majority && Date.now() < until) return { token, until }
      await this.drop(resource, token)
      await new Promise((r) => setTimeout(r, 30 + Math.random() * 200))
    } while (Date.now() < end)
    throw new Error(`could not get ${resource}`)
  }

  private drop(resource: string, token: string) {
    return this.count((n) => n.eval(DEL, 1, resource, token), 1)
  }

  private get majority() {
    return (this.nodes.length >> 1) + 1
  }

  private get drift() {
    return Math.ceil(this.ttl * 0.01) + 2
  }

  private async count(cmd: (n: Redis) => Promise<unknown>, expected: unknown): Promise<number> {
    const one = async (n: Redis) => {
      let t: NodeJS.Timeout | undefined
      try {
        const timeout = new Promise((_, rej) => {
          t = setTimeout(rej, this.nodeTimeout, new Error('timeout'))
        })
        return (await Promise.race([cmd(n), timeout])) === expected
      } catch {
        return false
      } finally {
        clearTimeout(t)
      }
    }
    const all = await Promise.all(this.nodes.map(one))
    return all.filter(Boolean).length
  }
}

export default Warden
