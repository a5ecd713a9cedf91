import { Redis } from '@upstash/redis'

const redis = Redis.fromEnv()

// in seconds, as the plan of the customer has it
const EXPORT_LEASE = Number(process.env.EXPORT_LEASE_SECONDS ?? 45)

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`

type Handler = (request: Request, signal: AbortSignal) => Promise<Response>

/** Route handlers of Next.js: `export const POST = exclusiveExport('acme', async (request, signal) => ...)` */
export function exclusiveExport(customer: string, handler: Handler) {
  return async function route(request: Request): Promise<Response> {
    const key = `export:${customer}`
    const token = `e_${crypto.randomUUID()}`
    const begin = performance.now()

    const reply = await redis.set(key, token, { nx: true, px: EXPORT_LEASE })
    if (reply !== 'OK') return Response.json({ error: 'an export is running' }, { status: 409 })

    const left = begin + EXPORT_LEASE * 1000 - 500 - performance.now()
    const abort = new AbortController()
    const timer = setTimeout(() => abort.abort(new Error('export took too long')), Math.max(0, left))
    try {
      return await handler(request, abort.signal)
    } finally {
      clearTimeout(timer)
      await redis.eval(UNLOCK, [key], [token])
    }
  }
}
