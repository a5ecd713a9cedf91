import { randomUUID } from 'node:crypto'
import type { createClient } from 'redis'

type Client = ReturnType<typeof createClient>

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`

// The document lives in the same Redis, so ownership is checked where the write happens.
const WRITE = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('set', KEYS[2], ARGV[2])
return 1`

/**
 * In code that tsc compiles down:
 *
 *   await using lease = await Lease.take(client, '{doc:42}:lock', 5_000)
 *   if (!lease) return
 *   const doc = await client.get('{doc:42}')
 *   await lease.write('{doc:42}', edit(doc))
 *
 * `await using` accepts null, nothing is disposed then.
 */
export class Lease {
  readonly key: string
  #client: Client
  #token: string

  private constructor(client: Client, key: string, token: string) {
    this.#client = client
    this.key = key
    this.#token = token
  }

  static async take(client: Client, key: string, ttlMs: number): Promise<Lease | null> {
    const token = randomUUID()
    const reply = await client.set(key, token, {
      condition: 'NX',
      expiration: { type: 'PX', value: ttlMs },
    })
    return reply === 'OK' ? new Lease(client, key, token) : null
  }

  /** Throws if the lease has run out by the time Redis sees the write. */
  async write(dataKey: string, value: string): Promise<void> {
    const done = await this.#client.eval(WRITE, {
      keys: [this.key, dataKey],
      arguments: [this.#token, value],
    })
    if (done !== 1) throw new Error(`${this.key} expired, nothing written`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client.eval(RELEASE, { keys: [this.key], arguments: [this.#token] }).catch(() => 0)
  }
}

/** For plain Node 20 callers. Returns false if someone else is editing. */
export async function editDoc(client: Client, id: string, edit: (old: string | null) => Promise<string>) {
  const doc = `{doc:${id}}`
  const lease = await Lease.take(client, `${doc}:lock`, 5_000)
  if (!lease) return false
  try {
    await lease.write(doc, await edit(await client.get(doc)))
    return true
  } finally {
    await lease[Symbol.asyncDispose]()
  }
}
