// Closes ranked seasons when their end date has passed and hands out rewards.
// One of the game servers is elected for it; the others stand by.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';
import { Pool } from 'pg';
import pino from 'pino';

const log = pino({ name: 'season-closer' });
const KEY = 'leader:season-closer';
const TTL_MS = 12_000;
const BEAT_MS = 3_000;
const SAFETY_MS = 2_000;

const RENEW = `if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;
const RESIGN = `if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1]) end return 0`;

export class SeasonCloser {
  private readonly id = randomUUID();
  private term?: AbortController;
  private deadline?: NodeJS.Timeout;
  private leading: Promise<void> = Promise.resolve();
  private stopped = false;

  constructor(
    private readonly redis: ReturnType<typeof createClient>,
    private readonly pool: Pool,
  ) {}

  async run(): Promise<void> {
    while (!this.stopped) {
      const sentAt = performance.now();
      try {
        const ours = this.term
          ? (await this.redis.eval(RENEW, { keys: [KEY], arguments: [this.id, String(TTL_MS)] })) === 1
          : (await this.redis.set(KEY, this.id, { NX: true, PX: TTL_MS })) === 'OK';
        if (ours) this.holdUntil(sentAt + TTL_MS - SAFETY_MS);
        else this.endTerm('lost or not elected');
      } catch (err) {
        log.warn({ err }, 'heartbeat failed');
      }
      await sleep(BEAT_MS);
    }
  }

  async stop(): Promise<void> {
    this.stopped = true;
    this.endTerm('shutdown');
    await this.leading;
    await this.redis.eval(RESIGN, { keys: [KEY], arguments: [this.id] }).catch(() => undefined);
  }

  private holdUntil(until: number): void {
    clearTimeout(this.deadline);
    const left = until - performance.now();
    if (left <= 0 || this.stopped) return this.endTerm('heartbeat came back too late');
    this.deadline = setTimeout(() => this.endTerm('not renewed in time'), left);
    if (!this.term) {
      log.info('elected');
      const term = (this.term = new AbortController());
      this.leading = this.leading.then(() => this.lead(term.signal));
    }
  }

  private endTerm(why: string): void {
    clearTimeout(this.deadline);
    if (this.term) log.info({ why }, 'stepping down');
    this.term?.abort();
    this.term = undefined;
  }

  private async lead(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        while (!signal.aborted && (await this.closeNext(signal)));
      } catch (err) {
        log.error({ err }, 'closing a season failed');
      }
      await sleep(5_000, undefined, { signal }).catch(() => undefined);
    }
  }

  private async closeNext(signal: AbortSignal): Promise<boolean> {
    const db = await this.pool.connect();
    try {
      await db.query('BEGIN');
      const due = await db.query(
        `SELECT id FROM seasons WHERE status = 'open' AND ends_at <= now()
          ORDER BY ends_at LIMIT 1 FOR UPDATE SKIP LOCKED`,
      );
      if (due.rowCount) {
        await db.query(
          `INSERT INTO rewards (season_id, player_id, gems)
           SELECT season_id, player_id, gems_for(rank) FROM standings WHERE season_id = $1`,
          [due.rows[0].id],
        );
        await db.query(`UPDATE seasons SET status = 'closed' WHERE id = $1`, [due.rows[0].id]);
      }
      await db.query(signal.aborted ? 'ROLLBACK' : 'COMMIT');
      return Boolean(due.rowCount);
    } catch (err) {
      await db.query('ROLLBACK').catch(() => undefined);
      throw err;
    } finally {
      db.release();
    }
  }
}
