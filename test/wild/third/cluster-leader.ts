import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

const RESIGN = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

export interface LeaderHooks {
  onElected?(): void;
  onDeposed?(): void;
}

/** One of the instances of the service is the leader; it runs the schedules. */
export class ClusterLeader {
  private readonly client = createClient({ url: process.env.REDIS_URL });
  private readonly instance = randomUUID();
  private validUntil = 0;
  private leading = false;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly hooks: LeaderHooks = {},
    private readonly key = 'cluster:leader',
    private readonly ttl = 8_000,
  ) {
    this.client.on('error', (err: Error) => console.warn(`leader: ${err.message}`));
  }

  get isLeader(): boolean {
    return this.leading && performance.now() < this.validUntil;
  }

  async start(): Promise<void> {
    await this.client.connect();
    await this.check();
    this.timer = setInterval(() => void this.check(), this.ttl / 3);
  }

  async stop(): Promise<void> {
    clearInterval(this.timer);
    this.depose();
    await this.client.eval(RESIGN, { keys: [this.key], arguments: [this.instance] });
    await this.client.close();
  }

  private async check(): Promise<void> {
    const asked = performance.now();
    try {
      const leader = await this.client.get(this.key);
      if (leader === this.instance) {
        await this.client.pExpire(this.key, this.ttl);
        this.elect(asked);
      } else if (leader === null) {
        const reply = await this.client.set(this.key, this.instance, { NX: true, PX: this.ttl });
        if (reply === 'OK') this.elect(asked);
      } else {
        this.depose();
      }
    } catch (err) {
      console.warn('leader check failed', err);
      if (!this.isLeader) this.depose();
    }
  }

  private elect(asked: number): void {
    this.validUntil = asked + this.ttl - 200;
    if (this.leading) return;
    this.leading = true;
    this.hooks.onElected?.();
  }

  private depose(): void {
    if (!this.leading) return;
    this.leading = false;
    this.hooks.onDeposed?.();
  }
}
