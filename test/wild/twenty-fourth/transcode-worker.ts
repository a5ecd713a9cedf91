import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { performance } from 'node:perf_hooks'
import { createClient } from 'redis'

type Client = ReturnType<typeof createClient>

const TTL = 30_000
const SAFETY = 3_000

const RENEW = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) else return 0 end`
const FREE = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`
const PUBLISH = `
if redis.call("get", KEYS[1]) ~= ARGV[1] then return 0 end
redis.call("hset", KEYS[2], "state", "ready", "file", ARGV[2])
return 1`

class Lease {
  private readonly ctl = new AbortController()
  private readonly beat: NodeJS.Timeout
  private deadline?: NodeJS.Timeout
  private renewing = false
  private ended = false

  private constructor(private client: Client, readonly key: string, readonly token: string, asked: number) {
    this.arm(asked)
    this.beat = setInterval(() => void this.renew(), TTL / 3)
  }

  static async take(client: Client, key: string): Promise<Lease | null> {
    const token = randomBytes(16).toString('hex')
    const asked = performance.now()
    const reply = await client.set(key, token, { NX: true, PX: TTL })
    return reply === 'OK' ? new Lease(client, key, token, asked) : null
  }

  get signal(): AbortSignal {
    return this.ctl.signal
  }

  // counted from the moment we *asked*, so a slow answer never makes the lease look longer than it is
  private arm(asked: number) {
    clearTimeout(this.deadline)
    const left = asked + TTL - SAFETY - performance.now()
    this.deadline = setTimeout(() => this.ctl.abort(new Error('lease ran out')), Math.max(0, left))
  }

  private async renew() {
    if (this.renewing || this.ended) return
    this.renewing = true
    const asked = performance.now()
    try {
      const n = await this.client.eval(RENEW, { keys: [this.key], arguments: [this.token, String(TTL)] })
      if (this.ended) return
      if (n === 1) this.arm(asked)
      else this.ctl.abort(new Error('lease taken over'))
    } catch (err) {
      console.warn('renewal failed, trying again until the deadline', err)
    } finally {
      this.renewing = false
    }
  }

  async publish(hash: string, file: string): Promise<boolean> {
    this.signal.throwIfAborted()
    return (await this.client.eval(PUBLISH, { keys: [this.key, hash], arguments: [this.token, file] })) === 1
  }

  async end() {
    this.ended = true
    clearInterval(this.beat)
    clearTimeout(this.deadline)
    await this.client.eval(FREE, { keys: [this.key], arguments: [this.token] }).catch((e) => console.warn('release', e))
  }
}

function ffmpeg(src: string, dst: string, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const p = spawn('ffmpeg', ['-y', '-i', src, '-c:v', 'libx264', dst], { signal, stdio: 'ignore' })
    p.once('error', reject)
    p.once('close', (code) => (code === 0 ? resolve() : reject(new Error(`ffmpeg exited with ${code}`))))
  })
}

interface Job { assetId: string; rev: number; source: string; outDir: string }
interface Message { ack(): Promise<void>; retryIn(ms: number): Promise<void> }

export async function onTranscodeJob(client: Client, job: Job, msg: Message): Promise<void> {
  const asset = `asset:${job.assetId}:${job.rev}`
  const lease = await Lease.take(client, `lease:${asset}`)
  if (!lease) return msg.retryIn(10_000)

  try {
    if ((await client.hGet(asset, 'state')) !== 'ready') {
      // every attempt writes a file of its own; readers only follow the pointer in the hash
      const file = `${job.outDir}/${job.assetId}-${job.rev}-${lease.token}.mp4`
      await ffmpeg(job.source, file, lease.signal)
      if (!(await lease.publish(asset, file))) throw new Error(`lease on ${asset} lost before publishing`)
    }
    await msg.ack()
  } catch (err) {
    console.error(`transcode ${asset}`, err)
    await msg.retryIn(15_000)
  } finally {
    await lease.end()
  }
}
