import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const RENEW =
  "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end";
const RESIGN = "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

/** Asks for the office until it has it, and renews it; `inCharge` ends before the key does. */
export class Office {
  protected until = 0;
  private readonly redis: Redis;
  private readonly seat: string;
  private readonly leaseMs: number;
  private term = '';
  private timer: NodeJS.Timeout | undefined;
  private turn: Promise<void> = Promise.resolve();

  constructor(redis: Redis, seat: string, leaseMs = 6_000) {
    this.redis = redis;
    this.seat = seat;
    this.leaseMs = leaseMs;
  }

  async begin(): Promise<void> {
    this.turn = this.campaign();
    await this.turn;
  }

  inCharge(): boolean {
    return Date.now() < this.until;
  }

  async quit(): Promise<void> {
    clearTimeout(this.timer);
    await this.turn;
    clearTimeout(this.timer);
    this.until = 0;
    await this.redis.eval(RESIGN, 1, this.seat, this.term).catch(() => 0);
  }

  private async campaign(): Promise<void> {
    const asked = Date.now();
    try {
      if (await this.askedFor()) this.until = asked + this.leaseMs * 0.95;
      else this.until = 0;
    } catch {
      // What it has ends by itself.
    }
    this.timer = setTimeout(() => {
      this.turn = this.campaign();
    }, this.leaseMs / 3);
  }

  private async askedFor(): Promise<boolean> {
    if (this.inCharge()) {
      const kept = (await this.redis.eval(RENEW, 1, this.seat, this.term, this.leaseMs)) === 1;
      return kept && this.inCharge();
    }
    await this.redis.eval(RESIGN, 1, this.seat, this.term);
    this.term = randomUUID();
    return (await this.redis.set(this.seat, this.term, 'PX', this.leaseMs, 'NX')) === 'OK';
  }
}
