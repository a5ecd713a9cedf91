import { EventEmitter } from 'node:events';
import { hostname } from 'node:os';
import { randomUUID } from 'node:crypto';
import Redis from 'iovalkey';

export interface DispatchLeaderConfig {
  key?: string;
  leaseMs?: number;
  heartbeatMs?: number;
}

const KEEP = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;

const GIVE_UP = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

/**
 * Exactly one dispatcher assigns riders at a time.
 *
 *   leader.on('elected', () => ...)   leader.on('demoted', () => ...)
 */
export class DispatchLeader extends EventEmitter {
  readonly id = `${hostname()}:${randomUUID()}`;
  private readonly key: string;
  private readonly leaseMs: number;
  private readonly heartbeatMs: number;
  private leading = false;
  private timer?: NodeJS.Timeout;
  private stopped = false;

  constructor(
    private readonly redis: Redis,
    config: DispatchLeaderConfig = {},
  ) {
    super();
    this.key = config.key ?? 'dispatch:leader';
    this.leaseMs = config.leaseMs ?? 10_000;
    this.heartbeatMs = config.heartbeatMs ?? 2_500;
  }

  get isLeader(): boolean {
    return this.leading;
  }

  start(): void {
    void this.beat();
  }

  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    if (this.leading) {
      this.demote();
      await this.redis.eval(GIVE_UP, 1, this.key, this.id).catch(() => undefined);
    }
  }

  private async beat(): Promise<void> {
    try {
      if (this.leading) {
        const kept = await this.redis.eval(KEEP, 1, this.key, this.id, this.leaseMs);
        if (kept !== 1) this.demote();
      } else {
        const won = await this.redis.set(this.key, this.id, 'PX', this.leaseMs, 'NX');
        if (won === 'OK' && !this.stopped) this.promote();
      }
    } catch (err) {
      console.warn(`dispatch leader ${this.id}: heartbeat failed, next one in ${this.heartbeatMs} ms`, err);
    }
    if (!this.stopped) this.timer = setTimeout(() => void this.beat(), this.heartbeatMs);
  }

  private promote(): void {
    this.leading = true;
    this.emit('elected', this.id);
  }

  private demote(): void {
    this.leading = false;
    this.emit('demoted', this.id);
  }
}

export interface Rides {
  unassigned(limit: number): Promise<{ id: string }[]>;
  assign(rideId: string, riderId: string, opts: { timeoutMs: number }): Promise<void>;
}

export function runDispatcher(leader: DispatchLeader, rides: Rides, pickRider: (rideId: string) => Promise<string>) {
  let busy = false;
  const loop = setInterval(async () => {
    if (!leader.isLeader || busy) return;
    busy = true;
    try {
      for (const ride of await rides.unassigned(20)) {
        const rider = await pickRider(ride.id);
        if (!leader.isLeader) break;
        await rides.assign(ride.id, rider, { timeoutMs: 1_000 });
      }
    } catch (err) {
      console.error('dispatch round failed', err);
    } finally {
      busy = false;
    }
  }, 1_000);
  leader.start();
  return () => {
    clearInterval(loop);
    return leader.stop();
  };
}
