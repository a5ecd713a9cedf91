import { EventEmitter } from 'node:events';
import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

export const defaults = {
  url: process.env.REDIS_URL ?? 'redis://localhost:6379',
  group: process.env.SERVICE_NAME ?? 'scheduler',
  leaseMs: 15_000,
  tickMs: 5_000,
};

export type LeaderConfig = typeof defaults;

type Logger = Pick<Console, 'info' | 'warn' | 'error'>;

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

/**
 * Elects one leader in a group of replicas.
 *
 * Events: "elected", "deposed".
 *
 * The leader renews its lease three times per lease period, followers try to
 * take it at the same pace, so a crashed leader is replaced in leaseMs + tickMs
 * at worst.
 */
export class LeaderElection extends EventEmitter {
  readonly #config: LeaderConfig;
  readonly #log: Logger;
  readonly #id = randomUUID();
  readonly #key: string;
  readonly #client;
  #leading = false;
  #stopped = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(config: Partial<LeaderConfig> = {}, log: Logger = console) {
    super();
    this.#config = { ...defaults, ...config };
    this.#log = log;
    this.#key = `leader:${this.#config.group}`;
    this.#client = createClient({ url: this.#config.url, disableOfflineQueue: true });
    this.#client.on('error', (err: Error) => this.#log.error(`[leader] redis: ${err.message}`));
  }

  get isLeader(): boolean {
    return this.#leading;
  }

  async start(): Promise<void> {
    await this.#client.connect();
    await this.#tick();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    if (this.#leading) {
      this.#become(false, 'stopping');
      await this.#client.eval(RESIGN, { keys: [this.#key], arguments: [this.#id] }).catch(() => {});
    }
    this.#client.destroy();
  }

  async #tick(): Promise<void> {
    try {
      if (this.#leading) {
        await this.#renew();
      } else {
        await this.#campaign();
      }
    } catch (err) {
      // Redis restarts and failovers take a few seconds; do not flap on them.
      this.#log.warn(`[leader] tick failed, role unchanged: ${(err as Error).message}`);
    }
    if (!this.#stopped) {
      this.#timer = setTimeout(() => void this.#tick(), this.#config.tickMs);
    }
  }

  async #campaign(): Promise<void> {
    const askedAt = performance.now();
    const reply = await this.#client.set(this.#key, this.#id, { NX: true, PX: this.#config.leaseMs });
    if (reply !== 'OK' || this.#stopped) return;
    if (performance.now() - askedAt > this.#config.tickMs) {
      this.#log.warn('[leader] won, but the answer was slow; waiting for the next round');
      return;
    }
    this.#become(true, 'won the election');
  }

  async #renew(): Promise<void> {
    const reply = await this.#client.eval(RENEW, {
      keys: [this.#key],
      arguments: [this.#id, String(this.#config.leaseMs)],
    });
    if (reply !== 1) this.#become(false, 'lease is gone');
  }

  #become(leading: boolean, why: string): void {
    if (this.#leading === leading) return;
    this.#leading = leading;
    this.#log.info(`[leader] ${this.#id} ${leading ? 'elected' : 'deposed'}: ${why}`);
    this.emit(leading ? 'elected' : 'deposed');
  }
}

/** Runs `task` on the leader only, at the given pace. */
export function onLeader(election: LeaderElection, everyMs: number, task: () => Promise<void>) {
  let busy = false;
  return setInterval(async () => {
    if (busy || !election.isLeader) return;
    busy = true;
    await task().catch(console.error);
    busy = false;
  }, everyMs);
}
