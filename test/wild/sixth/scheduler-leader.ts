import { randomUUID } from 'node:crypto';
import { EventEmitter } from 'node:events';
import type { Redis } from 'ioredis';

const ACQUIRE_OR_RENEW = `
local leader = redis.call('GET', KEYS[1])
if not leader then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
elseif leader == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
return 0
`;

const RESIGN = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

/**
 * Exactly one scheduler enqueues the recurring jobs.
 *
 *   const leader = new SchedulerLeader(redis);
 *   leader.start();
 *   setInterval(() => leader.isLeader && enqueueDueJobs(), 1000);
 */
export class SchedulerLeader extends EventEmitter {
  isLeader = false;

  private readonly id = randomUUID();
  private readonly redis: Redis;
  private readonly key: string;
  private readonly leaseMs: number;
  private timer: NodeJS.Timeout | undefined;
  private round: Promise<void> = Promise.resolve();
  private stopped = false;

  constructor(redis: Redis, key = 'scheduler:leader', leaseMs = 10_000) {
    super();
    this.redis = redis;
    this.key = key;
    this.leaseMs = leaseMs;
  }

  start(): void {
    this.round = this.tick();
  }

  private async tick(): Promise<void> {
    try {
      const result = await this.redis.eval(ACQUIRE_OR_RENEW, 1, this.key, this.id, this.leaseMs);
      this.become(result === 1);
    } catch (err) {
      // network trouble, try again in the next round
      this.emit('warning', err);
    }
    if (!this.stopped) {
      this.timer = setTimeout(() => {
        this.round = this.tick();
      }, this.leaseMs / 3);
    }
  }

  private become(leader: boolean): void {
    if (leader === this.isLeader) return;
    this.isLeader = leader;
    this.emit(leader ? 'elected' : 'demoted');
  }

  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    await this.round;
    this.become(false);
    await this.redis.eval(RESIGN, 1, this.key, this.id).catch((err) => this.emit('warning', err));
  }
}
