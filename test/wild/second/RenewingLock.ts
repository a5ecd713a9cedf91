import { randomUUID } from 'node:crypto'
import type { Redis } from 'iovalkey'

const TTL_SECONDS = Number(process.env.LOCK_TTL_SECONDS ?? 20)
const TTL_MS = TTL_SECONDS * 1000
// renewing more often than twice a minute only burns CPU on the shared cluster
const RENEW_MS = Math.max(TTL_MS / 2, 30_000)

const COMPARE_PEXPIRE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`
const COMPARE_DEL = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`

export class RenewingLock {
  private timer?: NodeJS.Timeout
  private readonly token = randomUUID()
  private readonly abort = new AbortController()

  constructor(private readonly redis: Redis, private readonly key: string) {}

  get signal() {
    return this.abort.signal
  }

  async acquire(): Promise<boolean> {
    const ok = await this.redis.set(this.key, this.token, 'PX', TTL_MS, 'NX')
    if (ok !== 'OK') return false
    this.timer = setInterval(() => this.renew(), RENEW_MS)
    return true
  }

  private async renew() {
    try {
      const n = await this.redis.eval(COMPARE_PEXPIRE, 1, this.key, this.token, TTL_MS)
      if (n !== 1) this.lost()
    } catch {
      this.lost()
    }
  }

  private lost() {
    clearInterval(this.timer)
    this.abort.abort(new Error(`lock ${this.key} lost`))
  }

  async release() {
    clearInterval(this.timer)
    await this.redis.eval(COMPARE_DEL, 1, this.key, this.token)
  }
}

export async function withRenewingLock<T>(redis: Redis, key: string, job: (signal: AbortSignal) => Promise<T>) {
  const lock = new RenewingLock(redis, key)
  if (!(await lock.acquire())) throw new Error(`${key} is taken`)
  try {
    return await job(lock.signal)
  } finally {
    await lock.release()
  }
}
