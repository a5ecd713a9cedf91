import { Redis } from '@upstash/redis';
import { randomUUID } from 'node:crypto';

export interface LeaderOptions {
  group: string;
  leaseMs?: number;
  onGain?: () => void | Promise<void>;
  onLoss?: () => void | Promise<void>;
}

/**
 * Leader election for the scheduler. Each instance competes for a lease in
 * Redis. The holder of the lease renews it three times per period; everybody
 * else keeps trying to get it.
 */
export class SchedulerLeader {
  private readonly redis: Redis;
  private readonly id = randomUUID();
  private readonly key: string;
  private readonly leaseMs: number;
  private timer?: ReturnType<typeof setTimeout>;
  private leading = false;
  private running = false;

  constructor(private readonly options: LeaderOptions, redis?: Redis) {
    this.redis = redis ?? Redis.fromEnv();
    this.key = `leader:${options.group}`;
    this.leaseMs = options.leaseMs ?? 15_000;
  }

  get isLeader(): boolean {
    return this.leading;
  }

  start(): void {
    if (this.running) return;
    this.running = true;
    void this.step();
  }

  async stop(): Promise<void> {
    this.running = false;
    clearTimeout(this.timer);
    if (!this.leading) return;
    await this.change(false);
    await this.redis.eval(
      `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`,
      [this.key],
      [this.id],
    );
  }

  private async step(): Promise<void> {
    try {
      const held = this.leading ? await this.renew() : await this.campaign();
      if (this.running && held !== this.leading) await this.change(held);
    } catch (err) {
      console.error(`[${this.options.group}] election step failed`, err);
      if (this.leading) await this.change(false);
    }
    if (this.running) {
      this.timer = setTimeout(() => void this.step(), this.leaseMs / 3);
    }
  }

  private async campaign(): Promise<boolean> {
    const res = await this.redis.set(this.key, this.id, { nx: true, px: this.leaseMs });
    return res === 'OK';
  }

  private async renew(): Promise<boolean> {
    const res = await this.redis.set(this.key, this.id, { xx: true, px: this.leaseMs });
    return res === 'OK';
  }

  private async change(leading: boolean): Promise<void> {
    this.leading = leading;
    try {
      await (leading ? this.options.onGain?.() : this.options.onLoss?.());
    } catch (err) {
      console.error(`[${this.options.group}] leadership handler threw`, err);
    }
  }
}
