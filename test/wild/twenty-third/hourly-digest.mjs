// Every replica runs this; each hour's digest is sent by at most one of them.
//
// What is promised: a slot is claimed once and never given back. A replica that dies in the
// middle leaves that hour without digest (support knows). Digests of different hours may
// overlap, they share nothing. Should Redis lose its data within the hour, the mail gateway
// still drops the second one, because it has seen the message id.
import { hostname } from 'node:os'
import { createClient } from 'redis'

const HOUR = 3_600_000
const KEEP = 48 * HOUR

const redis = createClient({ url: process.env.REDIS_URL ?? 'redis://localhost:6379' })
redis.on('error', e => console.error('redis:', e.message))
await redis.connect()

const slotOf = ms => new Date(Math.floor(ms / HOUR) * HOUR).toISOString()

async function sendDigest(slot) {
  const res = await fetch(`${process.env.MAIL_API}/digest`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ messageId: `digest-${slot}`, hour: slot }),
    signal: AbortSignal.timeout(60_000),
  })
  if (!res.ok) throw new Error(`mail api: ${res.status}`)
}

let seen = ''

async function tick() {
  const slot = slotOf(Date.now())
  if (slot === seen) return
  try {
    // an error here means "do not know", and then we do not send; the next tick asks again
    const reply = await redis.set(`digest:${slot}`, hostname(), {
      condition: 'NX',
      expiration: { type: 'PX', value: KEEP },
    })
    seen = slot
    if (reply !== 'OK') return
  } catch (e) {
    console.error('claim of', slot, 'failed:', e.message)
    return
  }
  try {
    await sendDigest(slot)
    console.log('digest sent for', slot)
  } catch (e) {
    // maybe it went out, maybe not: leave it, no second try
    console.error('digest for', slot, 'failed:', e.message)
  }
}

setInterval(tick, 20_000)
await tick()
