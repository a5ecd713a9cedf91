import { randomUUID } from 'node:crypto'
import { Redis } from '@upstash/redis'
import { neon } from '@neondatabase/serverless'
import { Resend } from 'resend'

export const runtime = 'nodejs'
export const maxDuration = 60

const redis = Redis.fromEnv()
const sql = neon(process.env.DATABASE_URL!)
const resend = new Resend(process.env.RESEND_API_KEY)

const KEY = 'cron:weekly-digest'
const LOCK_MS = (maxDuration + 45) * 1000

const unlock = `
  if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
  end
  return 0
`

interface Pending {
  id: number
  email: string
  week: string
  html: string
}

async function sendOne(row: Pending): Promise<void> {
  const { error } = await resend.emails.send(
    { from: 'digest@example.com', to: row.email, subject: `Your week ${row.week}`, html: row.html },
    { idempotencyKey: `digest-${row.week}-${row.id}` },
  )
  if (error) throw new Error(error.message)
  await sql`update digests set sent_at = now() where id = ${row.id} and sent_at is null`
}

export async function GET(request: Request): Promise<Response> {
  if (request.headers.get('authorization') !== `Bearer ${process.env.CRON_SECRET}`) {
    return new Response('nope', { status: 401 })
  }

  const token = `run-${randomUUID()}`
  const taken = await redis.set(KEY, token, { nx: true, px: LOCK_MS })
  if (taken !== 'OK') {
    return Response.json({ skipped: true })
  }

  const stopAt = Date.now() + 45_000
  let sent = 0
  let failed = 0
  try {
    const rows = (await sql`
      select id, email, week, html from digests
      where sent_at is null order by id limit 500`) as Pending[]

    for (const row of rows) {
      if (Date.now() > stopAt) break
      try {
        await sendOne(row)
        sent++
      } catch (err) {
        failed++
        console.error('digest %d not sent', row.id, err)
      }
    }
    return Response.json({ sent, failed, left: rows.length - sent }, { status: failed ? 500 : 200 })
  } finally {
    await redis.eval(unlock, [KEY], [token]).catch((err: unknown) => console.warn('unlock', err))
  }
}
