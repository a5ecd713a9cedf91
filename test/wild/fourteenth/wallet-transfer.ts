import { randomBytes } from 'node:crypto'
import { Redis } from 'ioredis'

const LOCK_TTL_MS = 10_000
const FRAUD_TIMEOUT_MS = 3_000

const UNLOCK = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
  return 0
`

const MOVE = `
  if redis.call('EXISTS', KEYS[5]) == 1 then return 'DUPLICATE' end
  if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('GET', KEYS[2]) ~= ARGV[1] then return 'LOST' end
  local balance = tonumber(redis.call('GET', KEYS[3]) or '0')
  if balance < tonumber(ARGV[2]) then return 'FUNDS' end
  redis.call('DECRBY', KEYS[3], ARGV[2])
  redis.call('INCRBY', KEYS[4], ARGV[2])
  redis.call('HSET', KEYS[5], 'from', ARGV[3], 'to', ARGV[4], 'cents', ARGV[2])
  return 'OK'
`

export interface Transfer {
  id: string
  from: string
  to: string
  cents: number
}

export interface FraudService {
  check(t: Transfer, signal: AbortSignal): Promise<{ allowed: boolean; reason?: string }>
}

export type TransferResult = 'done' | 'busy' | 'insufficient-funds' | 'refused'

export class WalletTransfers {
  constructor(
    private readonly redis: Redis,
    private readonly fraud: FraudService,
    private readonly log: (msg: string, err?: unknown) => void = console.error,
  ) {}

  async transfer(t: Transfer): Promise<TransferResult> {
    if (t.from === t.to) throw new TypeError('a transfer needs two wallets')
    if (!Number.isSafeInteger(t.cents) || t.cents <= 0) throw new RangeError('cents must be a positive integer')

    const token = randomBytes(16).toString('hex')
    const wanted = [this.lockKey(t.from), this.lockKey(t.to)].sort()
    const touched: string[] = []

    try {
      for (const key of wanted) {
        touched.push(key)
        const reply = await this.redis.set(key, token, 'PX', LOCK_TTL_MS, 'NX')
        if (reply === null) return 'busy'
      }

      const verdict = await this.fraud.check(t, AbortSignal.timeout(FRAUD_TIMEOUT_MS))
      if (!verdict.allowed) return 'refused'

      const outcome = await this.redis.eval(
        MOVE,
        5,
        wanted[0]!,
        wanted[1]!,
        `{wallets}:balance:${t.from}`,
        `{wallets}:balance:${t.to}`,
        `{wallets}:transfer:${t.id}`,
        token,
        String(t.cents),
        t.from,
        t.to,
      )
      switch (outcome) {
        case 'OK':
        case 'DUPLICATE':
          return 'done'
        case 'FUNDS':
          return 'insufficient-funds'
        default:
          return 'busy'
      }
    } finally {
      const freed = await Promise.allSettled(touched.map((key) => this.redis.eval(UNLOCK, 1, key, token)))
      for (const f of freed) if (f.status === 'rejected') this.log('unlock failed', f.reason)
    }
  }

  private lockKey(wallet: string): string {
    return `{wallets}:lock:${wallet}`
  }
}
