import { EventEmitter } from 'node:events';
import { hostname } from 'node:os';
import { randomUUID } from 'node:crypto';
import type { RedisClientType } from 'redis';

export interface LeaderElectorOptions {
  /** Name of the group that elects one leader. */
  group: string;
  /** How long a leader stays in office without renewing. @default 15000 */
  termMs?: number;
  /** How often to renew or to stand for election. @default termMs / 3 */
  intervalMs?: number;
  logger?: Pick<Console, 'info' | 'warn'>;
}

const RENEW = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
else
  return 0
end`;

const RESIGN = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
else
  return 0
end`;

/**
 * Elects exactly one leader among the instances of a service.
 *
 * Emits `elected` when this instance takes office and `deposed` when it leaves it.
 *
 * @example
 * ```ts
 * const elector = new LeaderElector(redis, { group: 'odds-publisher' });
 * elector.on('elected', () => publisher.start());
 * elector.on('deposed', () => publisher.stop());
 * await elector.start();
 * ```
 */
export class LeaderElector extends EventEmitter {
  readonly id = `${hostname()}-${randomUUID()}`;

  private readonly key: string;
  private readonly termMs: number;
  private readonly intervalMs: number;
  private readonly logger: Pick<Console, 'info' | 'warn'>;
  private timer?: NodeJS.Timeout;
  private leading = false;
  private running = false;

  constructor(private readonly redis: RedisClientType, options: LeaderElectorOptions) {
    super();
    this.key = `leader:${options.group}`;
    this.termMs = options.termMs ?? 15_000;
    this.intervalMs = options.intervalMs ?? Math.floor(this.termMs / 3);
    this.logger = options.logger ?? console;
  }

  /** Whether this instance is the leader at the moment. */
  get isLeader(): boolean {
    return this.leading;
  }

  async start(): Promise<void> {
    if (this.running) return;
    this.running = true;
    await this.tick();
  }

  async stop(): Promise<void> {
    this.running = false;
    clearTimeout(this.timer);
    if (this.leading) {
      this.stepDown('shutting down');
      await this.redis.eval(RESIGN, { keys: [this.key], arguments: [this.id] });
    }
  }

  private async tick(): Promise<void> {
    try {
      if (this.leading) {
        await this.renew();
      } else {
        await this.campaign();
      }
    } catch (err) {
      this.logger.warn(`[${this.key}] election round failed, trying again in ${this.intervalMs} ms`, err);
    } finally {
      if (this.running) {
        this.timer = setTimeout(() => void this.tick(), this.intervalMs);
      }
    }
  }

  private async campaign(): Promise<void> {
    const reply = await this.redis.set(this.key, this.id, { NX: true, PX: this.termMs });
    if (reply === 'OK' && this.running) {
      this.leading = true;
      this.logger.info(`[${this.key}] ${this.id} elected`);
      this.emit('elected');
    }
  }

  private async renew(): Promise<void> {
    const renewed = await this.redis.eval(RENEW, {
      keys: [this.key],
      arguments: [this.id, String(this.termMs)],
    });
    if (renewed !== 1) {
      this.stepDown('another instance has taken over');
    }
  }

  private stepDown(reason: string): void {
    if (!this.leading) return;
    this.leading = false;
    this.logger.info(`[${this.key}] ${this.id} deposed: ${reason}`);
    this.emit('deposed', reason);
  }
}
