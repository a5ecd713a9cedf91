import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { createClient } from 'redis'

type Client = ReturnType<typeof createClient>

const LEASE_MS = 12_000
const MARGIN_MS = 2_000
const MAX_RATING_GAP = 150

const RENEW = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0`

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`

// A match is made only by the current leader, and only of two players who are still waiting.
const COMMIT_MATCH = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end
if not redis.call('ZSCORE', KEYS[2], ARGV[2]) then return 0 end
if not redis.call('ZSCORE', KEYS[2], ARGV[3]) then return 0 end
redis.call('ZREM', KEYS[2], ARGV[2], ARGV[3])
redis.call('RPUSH', KEYS[3], cjson.encode({ id = ARGV[4], players = { ARGV[2], ARGV[3] } }))
return 1`

export class MatchmakingLeader {
  private readonly client: Client
  private readonly leaderKey: string
  private readonly queueKey: string
  private readonly matchesKey: string

  constructor(client: Client, region: string) {
    this.client = client
    this.leaderKey = `mm:{${region}}:leader`
    this.queueKey = `mm:{${region}}:queue`
    this.matchesKey = `mm:{${region}}:matches`
  }

  async run(stop: AbortSignal): Promise<void> {
    while (!stop.aborted) {
      const token = randomUUID()
      const sentAt = performance.now()
      const won = await this.client
        .set(this.leaderKey, token, { NX: true, PX: LEASE_MS })
        .catch((err) => {
          console.warn('leader election failed', err)
          return null
        })
      if (won === 'OK') await this.lead(token, sentAt, stop)
      await sleep(2_000, undefined, { signal: stop }).catch(() => {})
    }
  }

  private async lead(token: string, sentAt: number, stop: AbortSignal): Promise<void> {
    const term = new AbortController()
    const signal = AbortSignal.any([term.signal, stop])
    let ended = false
    const endAt = (from: number) =>
      setTimeout(() => term.abort(), from + LEASE_MS - MARGIN_MS - performance.now())
    let deadline = endAt(sentAt)

    const heartbeat = setInterval(async () => {
      const at = performance.now()
      try {
        const kept = await this.client.eval(RENEW, {
          keys: [this.leaderKey],
          arguments: [token, String(LEASE_MS)],
        })
        if (kept !== 1) {
          term.abort()
        } else if (!ended) {
          clearTimeout(deadline)
          deadline = endAt(at)
        }
      } catch (err) {
        console.warn('heartbeat failed, leading on until the deadline', err)
      }
    }, LEASE_MS / 4)

    try {
      while (!signal.aborted) {
        await this.pairPlayers(token, signal)
        await sleep(500, undefined, { signal }).catch(() => {})
      }
    } catch (err) {
      console.error('matchmaking term ended', err)
    } finally {
      ended = true
      clearInterval(heartbeat)
      clearTimeout(deadline)
      await this.client
        .eval(RELEASE, { keys: [this.leaderKey], arguments: [token] })
        .catch((err) => console.warn('could not give up the leader key', err))
    }
  }

  private async pairPlayers(token: string, signal: AbortSignal): Promise<void> {
    const waiting = await this.client.zRangeWithScores(this.queueKey, 0, 199)
    let i = 0
    while (i + 1 < waiting.length && !signal.aborted) {
      const [a, b] = [waiting[i], waiting[i + 1]]
      if (b.score - a.score > MAX_RATING_GAP) {
        i += 1
        continue
      }
      const made = await this.client.eval(COMMIT_MATCH, {
        keys: [this.leaderKey, this.queueKey, this.matchesKey],
        arguments: [token, a.value, b.value, randomUUID()],
      })
      if (made === -1) throw new Error('no longer the leader')
      i += 2
    }
  }
}
