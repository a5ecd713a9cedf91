import { EventEmitter } from 'node:events';
import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

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

export interface LeaderOptions {
  key?: string;
  termMs?: number;
  beatMs?: number;
}

export class SchedulerLeader extends EventEmitter {
  private readonly redis: Redis;
  private readonly key: string;
  private readonly termMs: number;
  private readonly beatMs: number;
  private term: string | null = null;
  private leaderUntil = 0;
  private running = false;
  private timer: NodeJS.Timeout | undefined;
  private beating: Promise<void> = Promise.resolve();

  constructor(redis: Redis, { key = 'scheduler:leader', termMs = 15_000, beatMs = 4_000 }: LeaderOptions = {}) {
    super();
    this.redis = redis;
    this.key = key;
    this.termMs = termMs;
    this.beatMs = beatMs;
  }

  /** Ask before every unit of leader-only work. */
  isLeader(): boolean {
    return this.running && this.term !== null && performance.now() < this.leaderUntil;
  }

  start(): void {
    if (this.running) return;
    this.running = true;
    this.schedule(0);
  }

  async stop(): Promise<void> {
    this.running = false;
    clearTimeout(this.timer);
    await this.beating;
    const term = this.term;
    this.term = null;
    this.leaderUntil = 0;
    if (term) await this.redis.eval(RESIGN, 1, this.key, term);
  }

  private schedule(delay: number): void {
    this.timer = setTimeout(() => {
      this.beating = this.beat()
        .catch((err) => console.warn('leader beat failed', err))
        .finally(() => {
          if (this.running) this.schedule(this.beatMs);
        });
    }, delay);
  }

  private goodUntil(sentAt: number): number {
    return sentAt + this.termMs * 0.97 - 50;
  }

  private async beat(): Promise<void> {
    if (this.term !== null) {
      const sentAt = performance.now();
      const kept = await this.redis.eval(RENEW, 1, this.key, this.term, this.termMs);
      if (kept === 1) {
        this.leaderUntil = this.goodUntil(sentAt);
        return;
      }
      this.term = null;
      this.leaderUntil = 0;
      this.emit('demoted');
    }
    const candidate = randomUUID();
    const sentAt = performance.now();
    const reply = await this.redis.set(this.key, candidate, 'PX', this.termMs, 'NX');
    if (reply === 'OK') {
      this.term = candidate;
      this.leaderUntil = this.goodUntil(sentAt);
      if (this.isLeader()) this.emit('elected', candidate);
    }
  }
}
