import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const OWN = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end ";

/** Beginning gives the election itself, long before anything is decided. */
export class Election {
  private readonly redis: Redis;
  private readonly role: string;
  private readonly id: string = randomUUID();
  private timer: NodeJS.Timeout | null = null;
  private until = 0;

  constructor(redis: Redis, role: string) {
    this.redis = redis;
    this.role = role;
  }

  get isLeader(): boolean {
    return Date.now() < this.until;
  }

  start(): this {
    this.timer = setInterval(() => void this.campaign(), 2_000);
    void this.campaign();
    return this;
  }

  async stop(): Promise<void> {
    if (this.timer !== null) clearInterval(this.timer);
    this.timer = null;
    this.until = 0;
    await this.redis.eval(`${OWN} return redis.call('del', KEYS[1])`, 1, this.role, this.id);
  }

  private async campaign(): Promise<void> {
    const asked = Date.now();
    const won = await this.ask().catch(() => false);
    if (this.timer !== null && won) this.until = asked + 7_200;
  }

  private async ask(): Promise<boolean> {
    const { redis, role, id } = this;
    if (!this.isLeader) return (await redis.set(role, id, 'PX', 8_000, 'NX')) === 'OK';
    return (await redis.eval(`${OWN} return redis.call('pexpire', KEYS[1], 8000)`, 1, role, id)) === 1;
  }
}
