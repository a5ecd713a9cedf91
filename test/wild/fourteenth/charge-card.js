import { randomUUID } from 'node:crypto'

// Claims that never get an answer show up on the support dashboard.
const KEEP_SECONDS = 24 * 3600
const PROVIDER_TIMEOUT = 15_000

const COMPLETE = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
return 1`

const FORGET = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`

class HttpError extends Error {
  constructor(status, message) {
    super(message)
    this.status = status
  }
}

async function callProvider({ cardToken, cents, currency, reference }) {
  const res = await fetch('https://api.cardprovider.example/v1/charges', {
    method: 'POST',
    headers: {
      authorization: `Bearer ${process.env.CARD_PROVIDER_KEY}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify({ source: cardToken, amount: cents, currency, reference }),
    signal: AbortSignal.timeout(PROVIDER_TIMEOUT),
  })
  const body = await res.json()
  if (res.status === 402) throw new HttpError(402, body.message ?? 'card declined')
  if (!res.ok) throw new HttpError(502, `card provider answered ${res.status}`)
  return { chargeId: body.id, cents: body.amount }
}

/**
 * POST /charges, with an Idempotency-Key header from our apps.
 * `redis` is a connected node-redis client.
 */
export function chargeRoute(redis) {
  async function charge(idempotencyKey, order) {
    const key = `charge:${idempotencyKey}`
    const claim = `claim:${randomUUID()}`

    const forget = () =>
      redis
        .eval(FORGET, { keys: [key], arguments: [claim] })
        .catch((e) => console.warn('claim %s stays until it expires', key, e))

    let first
    try {
      first = await redis.set(key, claim, { NX: true, EX: KEEP_SECONDS })
    } catch (err) {
      await forget()
      throw err
    }
    if (first === null) {
      const seen = await redis.get(key)
      if (seen === null || seen.startsWith('claim:')) throw new HttpError(409, 'this charge is in progress')
      return JSON.parse(seen)
    }

    let result
    try {
      result = await callProvider(order)
    } catch (err) {
      // Let the app try again with the same key.
      await forget()
      throw err
    }

    // The charge is made, so the answer has to be kept.
    for (let attempt = 1; ; attempt++) {
      try {
        await redis.eval(COMPLETE, {
          keys: [key],
          arguments: [claim, JSON.stringify(result), String(KEEP_SECONDS)],
        })
        return result
      } catch (err) {
        if (attempt === 5) {
          console.error('charge %s was made but is not recorded', result.chargeId, err)
          return result
        }
        await new Promise((r) => setTimeout(r, 200 * attempt))
      }
    }
  }

  return async function handler(req, res) {
    const send = (status, body) => {
      res.writeHead(status, { 'content-type': 'application/json' })
      res.end(JSON.stringify(body))
    }
    try {
      const idempotencyKey = req.headers['idempotency-key']
      if (!idempotencyKey) return send(400, { error: 'Idempotency-Key is required' })
      send(201, await charge(idempotencyKey, req.body))
    } catch (err) {
      send(err instanceof HttpError ? err.status : 500, { error: err.message })
    }
  }
}
