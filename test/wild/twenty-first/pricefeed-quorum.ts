import { randomBytes } from 'node:crypto'
import { Redis } from 'ioredis'

// Five independent instances (no replicas between them, AOF with fsync always).
export async function connectLockNodes(): Promise<Redis[]> {
  const urls = (process.env.LOCK_NODES ?? '').split(',').filter(Boolean)
  if (urls.length < 3) throw new Error('LOCK_NODES wants at least three urls')
  const nodes = urls.map((url) => {
    const node = new Redis(url, {
      lazyConnect: true,
      connectTimeout: 1_000,
      commandTimeout: 150,
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
    })
    node.on('error', (err) => console.warn(`lock node ${new URL(url).host}: ${err.message}`))
    return node
  })
  await Promise.allSettled(nodes.map((n) => n.connect()))
  return nodes
}

const UNLOCK = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`

export interface Lease extends AsyncDisposable {
  remainingMs(): number
}

export async function acquireLease(nodes: Redis[], resource: string, ttlMs: number): Promise<Lease | null> {
  const key = `lease:${resource}`
  const token = randomBytes(20).toString('hex')
  const quorum = Math.floor(nodes.length / 2) + 1

  const unlockEverywhere = async () => {
    // also where we got an error: the write may have happened and only the reply was lost
    await Promise.allSettled(nodes.map((n) => n.eval(UNLOCK, 1, key, token)))
  }

  const startedAt = performance.now()
  const votes = await Promise.all(
    nodes.map((n) =>
      n.set(key, token, 'PX', ttlMs, 'NX').then(
        (reply) => reply === 'OK',
        () => false,
      ),
    ),
  )
  const drift = Math.ceil(ttlMs * 0.01) + 2
  const validUntil = startedAt + ttlMs - drift

  if (votes.filter(Boolean).length < quorum || performance.now() >= validUntil) {
    await unlockEverywhere()
    return null
  }
  return {
    remainingMs: () => validUntil - performance.now(),
    [Symbol.asyncDispose]: unlockEverywhere,
  }
}

export interface FeedStore {
  current(shop: string): Promise<{ revision: number; etag: string }>
  /** compare-and-swap on the revision */
  swap(shop: string, fromRevision: number, body: string): Promise<boolean>
}

export type PublishOutcome = 'published' | 'busy' | 'expired' | 'superseded'

export async function publishPriceFeed(
  nodes: Redis[],
  feeds: FeedStore,
  shop: string,
  render: (shop: string) => Promise<string>,
): Promise<PublishOutcome> {
  await using lease = await acquireLease(nodes, `pricefeed:${shop}`, 30_000)
  if (!lease) return 'busy'

  const { revision } = await feeds.current(shop)
  const body = await render(shop)

  // rendering a big shop can be slow; better to skip a round than to publish without the lease
  if (lease.remainingMs() < 5_000) return 'expired'
  return (await feeds.swap(shop, revision, body)) ? 'published' : 'superseded'
}
