import { randomUUID } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { createClient } from 'redis';

type RedisClient = ReturnType<typeof createClient>;

const CAMPAIGN = `
local cur = redis.call('GET', KEYS[1])
if cur == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return tonumber(redis.call('GET', KEYS[2]) or '0')
end
if cur then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return redis.call('INCR', KEYS[2])`;

const RESIGN = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

const PUBLISH = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[2], ARGV[2])
return 1`;

export interface LeaderOptions {
  group: string;
  leaseMs?: number;
  marginMs?: number;
}

export class MatchmakerLeader extends EventEmitter {
  private readonly id = randomUUID();
  private readonly leaderKey: string;
  private readonly termKey: string;
  private readonly leaseMs: number;
  private readonly marginMs: number;
  private leaseUntil = 0;
  private heldTerm = 0;
  private announced = false;
  private lapse: NodeJS.Timeout | undefined;
  private stopped = false;
  private loop: Promise<void> | null = null;
  private wake: () => void = () => undefined;

  constructor(private readonly redis: RedisClient, opts: LeaderOptions) {
    super();
    this.leaderKey = `{mm:${opts.group}}:leader`;
    this.termKey = `{mm:${opts.group}}:term`;
    this.leaseMs = opts.leaseMs ?? 9_000;
    this.marginMs = opts.marginMs ?? 1_000;
  }

  start(): void {
    this.loop ??= this.campaignLoop();
  }

  /** Term under which this process leads right now, or null. Pass it to publish(). */
  term(): number | null {
    return performance.now() < this.leaseUntil ? this.heldTerm : null;
  }

  /** Stores the bracket unless a later term has begun in the meantime. */
  async publish(term: number, bracket: unknown): Promise<boolean> {
    const reply = await this.redis.eval(PUBLISH, {
      keys: [this.termKey, `${this.leaderKey}:bracket`],
      arguments: [String(term), JSON.stringify(bracket)],
    });
    return reply === 1;
  }

  async stop(): Promise<void> {
    this.stopped = true;
    this.leaseUntil = 0;
    clearTimeout(this.lapse);
    this.announce();
    this.wake();
    await this.loop;
    await this.redis
      .eval(RESIGN, { keys: [this.leaderKey], arguments: [this.id] })
      .catch((err: Error) => this.emit('warning', err));
  }

  private async campaignLoop(): Promise<void> {
    while (!this.stopped) {
      await this.campaign();
      this.announce();
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, this.leaseMs / 3);
        this.wake = () => {
          clearTimeout(timer);
          resolve();
        };
        if (this.stopped) this.wake();
      });
      this.announce();
    }
  }

  private async campaign(): Promise<void> {
    const askedAt = performance.now();
    try {
      const term = Number(
        await this.redis.eval(CAMPAIGN, {
          keys: [this.leaderKey, this.termKey],
          arguments: [this.id, String(this.leaseMs)],
        }),
      );
      if (this.stopped) return;
      this.heldTerm = term;
      this.leaseUntil = term > 0 ? askedAt + this.leaseMs - this.marginMs : 0;
      clearTimeout(this.lapse);
      if (term > 0) {
        this.lapse = setTimeout(() => this.announce(), Math.max(0, this.leaseUntil - performance.now()) + 1);
      }
    } catch (err) {
      // Keep what we have: leaseUntil is not moved, so leadership ends on its own.
      this.emit('warning', err);
    }
  }

  private announce(): void {
    const leading = this.term() !== null;
    if (leading === this.announced) return;
    this.announced = leading;
    this.emit(leading ? 'elected' : 'demoted', this.heldTerm);
  }
}
