import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { Queue } from 'bullmq';
import type { Pool } from 'pg';
import type { Logger } from 'pino';

const CAMPAIGN = `
local cur = redis.call('GET', KEYS[1])
if cur == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
if cur then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
`;
const RESIGN = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

export interface ElectionOptions {
  key: string;
  ttlMs?: number;
  onElected: (term: AbortSignal) => Promise<void>;
}

/** One instance of this class is one candidate. */
export class Election {
  private readonly me = `${hostname()}:${randomUUID()}`;
  private readonly ttl: number;
  private validUntil = 0;
  private term: AbortController | null = null;
  private work: Promise<void> = Promise.resolve();
  private expiry?: NodeJS.Timeout;
  private loop: Promise<void> | null = null;
  private readonly stopping = new AbortController();

  constructor(private readonly redis: Redis, private readonly log: Logger, private readonly opts: ElectionOptions) {
    this.ttl = opts.ttlMs ?? 15_000;
  }

  start() {
    this.loop ??= this.run();
  }

  isLeader() {
    return this.term !== null && performance.now() < this.validUntil;
  }

  private async run() {
    while (!this.stopping.signal.aborted) {
      await this.tick();
      await sleep(this.ttl / 4, undefined, { signal: this.stopping.signal }).catch(() => undefined);
    }
  }

  private async tick() {
    // a former term has to come to rest before we stand again
    if (!this.term) await this.work;
    const sentAt = performance.now();
    try {
      const won = (await this.redis.eval(CAMPAIGN, 1, this.opts.key, this.me, this.ttl)) === 1;
      const until = sentAt + this.ttl * 0.85;
      if (won && !this.term) await this.work;
      if (won && performance.now() < until) this.hold(until);
      else if (!won) this.demote('lease is held by another');
    } catch (err) {
      this.log.warn({ err }, 'election round failed');
    }
  }

  private hold(until: number) {
    if (this.stopping.signal.aborted) return;
    this.validUntil = until;
    clearTimeout(this.expiry);
    this.expiry = setTimeout(() => this.demote('lease ran out'), until - performance.now());
    if (this.term) return;
    const term = new AbortController();
    const { signal } = term;
    this.term = term;
    this.log.info({ me: this.me }, 'elected');
    this.work = this.opts.onElected(signal).catch((err) => {
      if (!signal.aborted) this.log.error({ err }, 'leader work failed');
    }).finally(() => {
      if (this.term === term) this.demote('work ended');
    });
  }

  private demote(reason: string) {
    if (!this.term) return;
    clearTimeout(this.expiry);
    this.validUntil = 0;
    this.term.abort();
    this.term = null;
    this.log.info({ reason }, 'stepped down');
  }

  async stop() {
    this.stopping.abort();
    this.demote('shutdown');
    await this.work;
    await this.loop;
    await this.redis.eval(RESIGN, 1, this.opts.key, this.me).catch((err) => this.log.warn({ err }, 'resign failed'));
  }
}

export function startReminders(redis: Redis, pool: Pool, queue: Queue, log: Logger) {
  const election = new Election(redis, log, {
    key: 'reminders:leader',
    onElected: async (term) => {
      while (!term.aborted) {
        const { rows } = await pool.query(
          `SELECT id, due_on::text AS due FROM invoices
            WHERE status = 'open' AND due_on < current_date AND reminded_at IS NULL ORDER BY due_on LIMIT 200`,
        );
        for (const row of rows) {
          if (term.aborted || !election.isLeader()) return;
          // The processor stamps reminded_at with a conditional UPDATE and mails only when that hit a row.
          await queue.add('remind', { invoiceId: row.id }, { jobId: `remind-${row.id}-${row.due}`, removeOnComplete: 5000 });
        }
        await sleep(30_000, undefined, { signal: term }).catch(() => undefined);
      }
    },
  });
  election.start();
  return election;
}
