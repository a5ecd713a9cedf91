import { randomUUID } from 'node:crypto'
import { createClient } from 'redis'

type Client = ReturnType<typeof createClient>

export function createLeaderLease(client: Client, key = 'scheduler:leader', ttl = 6000) {
  const id = randomUUID()
  let until = 0
  let timer: NodeJS.Timeout | undefined

  async function acquire(): Promise<boolean> {
    const t = Date.now()
    const res = await client.set(key, id, { NX: true, PX: ttl })
    if (res !== 'OK') return false
    until = t + ttl
    timer = setInterval(renew, ttl / 3)
    return true
  }

  async function renew() {
    const t = Date.now()
    try {
      // XX: only when the key is still there, so an expired lease is not brought back
      const res = await client.set(key, id, { XX: true, PX: ttl })
      if (res === 'OK') {
        until = t + ttl
      } else {
        until = 0
        clearInterval(timer)
      }
    } catch {
      // try again at the next tick, `until` still counts
    }
  }

  async function resign() {
    clearInterval(timer)
    until = 0
    await client.eval(
      `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`,
      { keys: [key], arguments: [id] },
    )
  }

  return { acquire, resign, isLeader: () => Date.now() < until }
}

export default createLeaderLease
