import { randomUUID } from 'node:crypto'
import { createClient } from 'redis'

type Client = ReturnType<typeof createClient>

const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`

export class HeartbeatLock {
  private readonly token = randomUUID()
  private beat: NodeJS.Timeout | undefined

  constructor(
    private readonly client: Client,
    private readonly key: string,
    private readonly ttl = 15_000,
  ) {}

  async acquire(): Promise<boolean> {
    const reply = await this.client.set(this.key, this.token, { NX: true, PX: this.ttl })
    if (reply !== 'OK') return false
    this.beat = setInterval(() => {
      this.client.set(this.key, this.token, { PX: this.ttl }).catch((err: Error) => {
        console.warn(`heartbeat of ${this.key} failed: ${err.message}`)
      })
    }, this.ttl / 3)
    return true
  }

  async release(): Promise<void> {
    clearInterval(this.beat)
    await this.client.eval(RELEASE, { keys: [this.key], arguments: [this.token] })
  }
}
