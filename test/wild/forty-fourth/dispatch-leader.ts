import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'pg';
import pino from 'pino';
import type { RedisClientType } from 'redis';

const log = pino({ name: 'dispatch-leader' });

const LEASE_MS = Number(process.env.LEADER_LEASE_MS ?? 10_000);
const MARGIN_MS = 1_000;

const LEADER_KEY = '{dispatch}:leader';
const TERM_KEY = '{dispatch}:term'; // instance runs with appendfsync always

const CAMPAIGN = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0`;
const RENEW = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;
const RESIGN = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

/** One scheduler replica moves due jobs into the outbox, the rest stand by. */
export class DispatchLeader {
  private token = '';
  private term = 0;
  private validUntil = 0;
  private stopped = false;

  constructor(
    private readonly redis: RedisClientType,
    private readonly pool: Pool,
  ) {}

  private leading(): boolean {
    return this.term > 0 && performance.now() < this.validUntil;
  }

  private stepDown(reason: string) {
    log.warn({ term: this.term, reason }, 'stepping down');
    this.term = 0;
  }

  private async campaignOrRenew(): Promise<void> {
    const sentAt = performance.now();
    if (this.term === 0) {
      this.token = randomUUID();
      const term = await this.redis.eval(CAMPAIGN, {
        keys: [LEADER_KEY, TERM_KEY],
        arguments: [this.token, String(LEASE_MS)],
      });
      if (Number(term) === 0) return;
      this.term = Number(term);
      log.info({ term: this.term }, 'became leader');
    } else {
      const renewed = await this.redis.eval(RENEW, {
        keys: [LEADER_KEY],
        arguments: [this.token, String(LEASE_MS)],
      });
      if (Number(renewed) !== 1) return this.stepDown('lease is no longer ours');
    }
    this.validUntil = sentAt + LEASE_MS - MARGIN_MS;
  }

  /**
   * All effects are in one transaction on the row lock of dispatch_term, and a
   * term older than the one stored there is turned away.
   */
  private async dispatchDue(term: number): Promise<void> {
    const client = await this.pool.connect();
    try {
      await client.query('BEGIN');
      const { rows } = await client.query<{ term: string }>(
        'SELECT term FROM dispatch_term WHERE id = 1 FOR UPDATE',
      );
      if (BigInt(rows[0].term) > BigInt(term)) {
        await client.query('ROLLBACK');
        return this.stepDown(`term ${rows[0].term} has written already`);
      }
      const moved = await client.query(
        `WITH due AS (
           UPDATE jobs SET dispatched_at = now()
            WHERE dispatched_at IS NULL AND run_at <= now()
           RETURNING id, payload, run_at)
         INSERT INTO outbox (job_id, payload, due_at) SELECT id, payload, run_at FROM due`,
      );
      await client.query('UPDATE dispatch_term SET term = $1 WHERE id = 1', [term]);
      await client.query('COMMIT');
      if (moved.rowCount) log.info({ term, moved: moved.rowCount }, 'dispatched');
    } catch (err) {
      await client.query('ROLLBACK').catch(() => undefined);
      throw err;
    } finally {
      client.release();
    }
  }

  async run(): Promise<void> {
    while (!this.stopped) {
      try {
        await this.campaignOrRenew();
        if (this.leading()) await this.dispatchDue(this.term);
      } catch (err) {
        log.error({ err }, 'leader loop');
      }
      if (this.term > 0 && !this.leading()) this.stepDown('lease ran out');
      await sleep(LEASE_MS / 5 + Math.random() * 500);
    }
    await this.redis.eval(RESIGN, { keys: [LEADER_KEY], arguments: [this.token] }).catch(() => undefined);
  }

  stop() {
    this.stopped = true;
  }
}
