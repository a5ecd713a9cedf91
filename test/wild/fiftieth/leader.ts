import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import { Pool } from 'pg';
import type { ConfirmChannel } from 'amqplib';

const CAMPAIGN = `
local cur = redis.call('get', KEYS[1])
if cur == ARGV[1] then
  redis.call('pexpire', KEYS[1], ARGV[2])
  return 1
end
if not cur then
  redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
return 0`;
const RESIGN = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

export class Leadership {
  private readonly id = randomUUID();
  private readonly halt = new AbortController();
  private term?: AbortController;
  private leaseUntil = 0;
  private expiry?: NodeJS.Timeout;
  private loop?: Promise<void>;

  constructor(
    private readonly redis: Redis,
    private readonly key: string,
    private readonly onElected: (signal: AbortSignal, isLeader: () => boolean) => Promise<void>,
    private readonly ttlMs = 15_000,
    private readonly marginMs = 3_000,
  ) {}

  readonly isLeader = () => this.term !== undefined && performance.now() < this.leaseUntil - this.marginMs;

  start() {
    this.loop ??= this.run();
  }

  async stop() {
    this.halt.abort();
    this.endTerm('shutting down');
    await this.loop;
    await this.redis.eval(RESIGN, 1, this.key, this.id).catch((e) => console.warn('resign:', e.message));
  }

  private async run() {
    while (!this.halt.signal.aborted) {
      await this.campaign();
      await sleep(this.ttlMs / 4, undefined, { signal: this.halt.signal }).catch(() => undefined);
    }
  }

  private async campaign() {
    const t0 = performance.now();
    try {
      const won = await this.redis.eval(CAMPAIGN, 1, this.key, this.id, this.ttlMs);
      if (this.halt.signal.aborted) return;
      if (won !== 1) return this.endTerm('another node leads');
    } catch (e) {
      console.warn('campaign:', (e as Error).message);
      return;
    }
    if (this.term && !this.isLeader()) this.endTerm('lease lapsed');
    this.leaseUntil = t0 + this.ttlMs;
    clearTimeout(this.expiry);
    this.expiry = setTimeout(() => this.endTerm('lease lapsed'), this.leaseUntil - this.marginMs - performance.now());
    if (!this.term) {
      const term = (this.term = new AbortController());
      this.onElected(term.signal, this.isLeader).catch((e) => {
        console.error('leader task:', e);
        if (this.term === term) this.endTerm('leader task failed');
      });
    }
  }

  private endTerm(reason: string) {
    clearTimeout(this.expiry);
    this.term?.abort(new Error(reason));
    this.term = undefined;
  }
}

export function outboxRelay(pool: Pool, channel: ConfirmChannel) {
  return async (signal: AbortSignal, isLeader: () => boolean) => {
    while (!signal.aborted && isLeader()) {
      const db = await pool.connect();
      try {
        await db.query('BEGIN');
        const { rows } = await db.query('SELECT id, topic, body FROM outbox WHERE sent_at IS NULL ORDER BY id LIMIT 50 FOR UPDATE');
        for (const r of rows) channel.publish('events', r.topic, Buffer.from(r.body), { messageId: String(r.id), persistent: true });
        await channel.waitForConfirms();
        await db.query('UPDATE outbox SET sent_at = now() WHERE id = ANY($1)', [rows.map((r) => r.id)]);
        await db.query('COMMIT');
      } catch (e) {
        console.error('relay:', (e as Error).message);
        await db.query('ROLLBACK').catch(() => undefined);
      } finally {
        db.release();
      }
      await sleep(500, undefined, { signal }).catch(() => undefined);
    }
  };
}
