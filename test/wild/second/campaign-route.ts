import { Redis } from '@upstash/redis'

export const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL ?? 'https://usw1-merry-cat-30303.upstash.io',
  token: process.env.UPSTASH_REDIS_REST_TOKEN ?? 'dev',
})

const TTL = 20_000

export async function acquireLock(campaign: string): Promise<string | null> {
  const token = crypto.randomUUID()
  const res = await redis.set(`campaign:${campaign}`, token, { nx: true, px: TTL })
  return res === 'OK' ? token : null
}

// only the owner may remove the lock
export async function releaseLock(campaign: string, token: string): Promise<boolean> {
  const key = `campaign:${campaign}`
  const owner = await redis.get<string>(key)
  if (owner === token) {
    await redis.del(key)
    return true
  }
  return false
}

// app/api/campaigns/[id]/send/route.ts
export async function POST(
  _req: Request,
  { params, send }: { params: { id: string }; send: (id: string) => Promise<number> },
) {
  const token = await acquireLock(params.id)
  if (!token) return Response.json({ error: 'already sending' }, { status: 409 })
  try {
    const sent = await send(params.id)
    return Response.json({ sent })
  } finally {
    await releaseLock(params.id, token)
  }
}
