import { randomUUID } from 'node:crypto';
import axios from 'axios';
import { Pool } from 'pg';
import { createClient } from 'redis';

const redis = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true, pingInterval: 5_000 });
redis.on('error', (err) => console.error('redis', err.message));
const pool = new Pool({ statement_timeout: 5_000, query_timeout: 6_000 });

const RENEW = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;
const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;
const MARGIN_MS = 2_000;

class Lease {
  private readonly ctl = new AbortController();
  private closed = false;
  private renewTimer?: NodeJS.Timeout;
  private expiryTimer?: NodeJS.Timeout;

  private constructor(
    private readonly key: string,
    private readonly token: string,
    private readonly ttlMs: number,
    private deadline: number,
  ) {
    this.arm();
  }

  static async acquire(key: string, ttlMs: number): Promise<Lease | null> {
    const token = randomUUID();
    const t0 = performance.now();
    const reply = await redis.set(key, token, { NX: true, PX: ttlMs });
    return reply === 'OK' ? new Lease(key, token, ttlMs, t0 + ttlMs) : null;
  }

  get signal() {
    return this.ctl.signal;
  }

  assertHeld() {
    if (performance.now() >= this.deadline - MARGIN_MS) this.lose('lease ran out');
    this.ctl.signal.throwIfAborted();
  }

  private arm() {
    clearTimeout(this.expiryTimer);
    this.expiryTimer = setTimeout(() => this.lose('lease ran out'), this.deadline - MARGIN_MS - performance.now());
    this.renewTimer = setTimeout(() => void this.renew(), this.ttlMs / 4);
  }

  private async renew() {
    const t0 = performance.now();
    try {
      const ok = await redis.eval(RENEW, { keys: [this.key], arguments: [this.token, String(this.ttlMs)] });
      if (this.closed) return;
      if (ok !== 1) return this.lose('lock has another owner');
      this.deadline = t0 + this.ttlMs;
    } catch (err) {
      console.warn('settlement lock: renewal failed', (err as Error).message);
    }
    if (!this.closed) this.arm();
  }

  private lose(why: string) {
    if (this.closed) return;
    this.stop();
    this.ctl.abort(new Error(`settlement lock: ${why}`));
  }

  private stop() {
    this.closed = true;
    clearTimeout(this.renewTimer);
    clearTimeout(this.expiryTimer);
  }

  async release() {
    this.stop();
    await redis.eval(RELEASE, { keys: [this.key], arguments: [this.token] }).catch((e) => console.warn('release', e.message));
  }
}

async function settle(lease: Lease) {
  const { rows } = await pool.query(`SELECT id, iban, amount_cents FROM payouts WHERE status = 'pending' ORDER BY id LIMIT 2000`);
  for (const p of rows) {
    lease.assertHeld();
    const { data } = await axios.post(
      `${process.env.BANK_API}/transfers`,
      { iban: p.iban, amount: p.amount_cents },
      { timeout: 10_000, signal: lease.signal, headers: { 'Idempotency-Key': `payout-${p.id}` } },
    );
    await pool.query(`UPDATE payouts SET status = 'settled', bank_ref = $2 WHERE id = $1 AND status = 'pending'`, [p.id, data.id]);
  }
  return rows.length;
}

async function main() {
  await redis.connect();
  const lease = await Lease.acquire('settlement:run', 20_000);
  if (!lease) return console.log('another settlement run is active');
  try {
    console.log('settled', await settle(lease));
  } finally {
    await lease.release();
  }
}

main()
  .catch((err) => { console.error(err); process.exitCode = 1; })
  .finally(() => Promise.allSettled([redis.disconnect(), pool.end()]));
