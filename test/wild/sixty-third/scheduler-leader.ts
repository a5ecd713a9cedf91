import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { Logger } from './logger';

const RENEW = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

const RESIGN = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export interface LeaderDeps {
  /** Should have a commandTimeout well below the TTL. */
  redis: Redis;
  logger: Logger;
  key: string;
  ttlMs?: number;
}

interface Term {
  readonly token: string;
  readonly ended: AbortController;
  validUntil: number;
  timer: NodeJS.Timeout | undefined;
}

/** Elects one scheduler among all replicas. */
export class SchedulerLeader {
  private readonly redis: Redis;
  private readonly logger: Logger;
  private readonly key: string;
  private readonly ttlMs: number;
  private readonly safetyMs: number;
  private readonly running = new Set<Promise<void>>();
  private readonly wake = new AbortController();
  private term: Term | null = null;
  private stopping = false;
  private loop: Promise<void> | undefined;

  constructor({ redis, logger, key, ttlMs = 20_000 }: LeaderDeps) {
    this.redis = redis;
    this.logger = logger;
    this.key = key;
    this.ttlMs = ttlMs;
    this.safetyMs = Math.ceil(ttlMs / 10);
  }

  start(): void {
    this.loop ??= this.run();
  }

  isLeader(): boolean {
    return !this.stopping && this.term !== null && performance.now() < this.term.validUntil;
  }

  /** Runs the job if this replica leads. The signal fires when the term ends. */
  async runIfLeader(job: (signal: AbortSignal) => Promise<void>): Promise<boolean> {
    const term = this.term;
    if (term === null || !this.isLeader()) return false;
    const work = job(term.ended.signal);
    this.running.add(work);
    try {
      await work;
      return true;
    } finally {
      this.running.delete(work);
    }
  }

  async stop(): Promise<void> {
    this.stopping = true;
    this.term?.ended.abort(new Error('scheduler is shutting down'));
    // The lease is kept alive until the jobs have wound down.
    await Promise.allSettled([...this.running]);
    this.wake.abort();
    await this.loop;
    const term = this.term;
    if (term === null) return;
    this.endTerm(term, 'shutdown');
    await this.resign(term.token);
  }

  private async run(): Promise<void> {
    while (!this.wake.signal.aborted) {
      try {
        if (this.term !== null) await this.renew(this.term);
        else if (!this.stopping) await this.campaign();
      } catch (err) {
        // The deadline timer ends the term if this goes on for too long.
        this.logger.warn({ err, key: this.key }, 'leader election round failed');
      }
      const pause = this.ttlMs / 4 + Math.random() * 250;
      await delay(pause, undefined, { signal: this.wake.signal }).catch(() => undefined);
    }
  }

  private async campaign(): Promise<void> {
    const token = randomUUID();
    const sentAt = performance.now();
    const reply = await this.redis.set(this.key, token, 'PX', this.ttlMs, 'NX');
    if (reply !== 'OK') return;
    const validUntil = sentAt + this.ttlMs - this.safetyMs;
    if (this.stopping || performance.now() >= validUntil) {
      await this.resign(token);
      return;
    }
    const term: Term = { token, ended: new AbortController(), validUntil, timer: undefined };
    this.arm(term, validUntil);
    this.term = term;
    this.logger.info({ key: this.key }, 'became leader');
  }

  private async renew(term: Term): Promise<void> {
    const sentAt = performance.now();
    const renewed = await this.redis.eval(RENEW, 1, this.key, term.token, this.ttlMs);
    if (renewed !== 1) {
      this.endTerm(term, 'lease taken or expired');
      return;
    }
    if (this.term !== term) {
      // The deadline passed while the answer was on its way.
      await this.resign(term.token);
      return;
    }
    this.arm(term, sentAt + this.ttlMs - this.safetyMs);
  }

  private arm(term: Term, validUntil: number): void {
    clearTimeout(term.timer);
    term.validUntil = validUntil;
    term.timer = setTimeout(
      () => this.endTerm(term, 'deadline passed'),
      Math.max(0, validUntil - performance.now()),
    );
  }

  private endTerm(term: Term, reason: string): void {
    clearTimeout(term.timer);
    if (this.term === term) this.term = null;
    term.ended.abort(new Error(`leadership ended: ${reason}`));
    this.logger.info({ key: this.key, reason }, 'no longer leader');
  }

  private async resign(token: string): Promise<void> {
    await this.redis.eval(RESIGN, 1, this.key, token).catch((err) => {
      this.logger.warn({ err, key: this.key }, 'could not resign, lease will expire');
    });
  }
}
