import os from 'node:os'
import { createClient } from 'redis'
import cron from 'node-cron'
import pg from 'pg'

/*
 * Every web instance schedules the purge; one of them gets to run it per slot.
 *
 * - A slot is claimed, never released. The claim lives for two intervals, so an
 *   instance whose timer fires a bit late still finds it.
 * - Rounding (not flooring): timers fire a few ms before or after the full
 *   hour depending on the box's clock, and both sides must end up in one slot.
 * - If the instance that claimed the slot dies, the slot is skipped. The next
 *   run deletes whatever is left, so nobody needs to care.
 */

const HOUR = 3_600_000
const ME = `${os.hostname()}/${process.pid}`

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 60_000 })

const redis = createClient({
  url: process.env.REDIS_URL ?? 'redis://127.0.0.1:6379',
  // a claim that waited in the client's queue for an hour is worth nothing
  disableOfflineQueue: true,
})
redis.on('error', (err) => console.error('[redis]', err.message))
await redis.connect()

export async function claimSlot(job, intervalMs, at = Date.now()) {
  const slot = Math.round(at / intervalMs)
  const reply = await redis.set(`cron:${job}:${slot}`, ME, { NX: true, PX: intervalMs * 2 })
  return reply === 'OK'
}

async function purgeExpiredSessions() {
  let total = 0
  for (;;) {
    const { rowCount } = await pool.query(
      `DELETE FROM sessions
        WHERE id IN (SELECT id FROM sessions
                      WHERE expires_at < now()
                      LIMIT 5000
                        FOR UPDATE SKIP LOCKED)`
    )
    total += rowCount
    if (rowCount < 5000) return total
  }
}

cron.schedule(
  '0 * * * *',
  async () => {
    let mine = false
    try {
      mine = await claimSlot('session-purge', HOUR)
    } catch (err) {
      console.error('[purge] no claim, leaving this hour to the others:', err.message)
    }
    if (!mine) return

    try {
      const n = await purgeExpiredSessions()
      console.log(`[purge] removed ${n} sessions`)
    } catch (err) {
      console.error('[purge] failed, next hour picks up the rest:', err)
    }
  },
  { timezone: 'Etc/UTC' }
)
