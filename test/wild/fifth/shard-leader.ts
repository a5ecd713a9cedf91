import Redis from 'iovalkey';
import { randomUUID } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';

const RENEW = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;
const RESIGN = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

export interface ShardLeaderOptions {
  shard: string;
  leaseMs?: number;
  /** stop this long before the lease ends; one step of the leader's loop must fit in it */
  marginMs?: number;
  /** Must settle soon after its signal fires. */
  lead: (signal: AbortSignal) => Promise<void>;
}

/** Events: elected, demoted(reason), trouble(err) */
export class ShardLeader extends EventEmitter {
  private readonly id = randomUUID();
  private readonly key: string;
  private readonly leaseMs: number;
  private readonly marginMs: number;
  private readonly lead: (signal: AbortSignal) => Promise<void>;
  private readonly stop = new AbortController();

  constructor(
    private readonly redis: Redis,
    opts: ShardLeaderOptions,
  ) {
    super();
    this.key = `leader:${opts.shard}`;
    this.leaseMs = opts.leaseMs ?? 15_000;
    this.marginMs = opts.marginMs ?? 4_000;
    this.lead = opts.lead;
  }

  /** Resolves after shutdown() once the running term has been wound up. */
  async run(): Promise<void> {
    while (!this.stop.signal.aborted) {
      const asked = performance.now();
      try {
        const won = await this.redis.set(this.key, this.id, 'PX', this.leaseMs, 'NX');
        if (won === 'OK') await this.term(asked);
      } catch (err) {
        this.emit('trouble', err);
      }
      await sleep(this.leaseMs / 3 + Math.random() * 500, undefined, { signal: this.stop.signal }).catch(() => undefined);
    }
  }

  shutdown(): void {
    this.stop.abort();
  }

  private async term(wonAt: number): Promise<void> {
    const over = new AbortController();
    let reason = 'work finished';
    const end = (why: string) => {
      if (over.signal.aborted) return;
      reason = why;
      over.abort();
    };
    const onStop = () => end('shutdown');
    this.stop.signal.addEventListener('abort', onStop, { once: true });

    let timer: NodeJS.Timeout | undefined;
    const holdFrom = (t: number) => {
      clearTimeout(timer);
      const ms = t + this.leaseMs - this.marginMs - performance.now();
      if (ms <= 0) end('lease over');
      else timer = setTimeout(() => end('lease over'), ms);
    };

    holdFrom(wonAt);
    if (this.stop.signal.aborted) end('shutdown');
    const renewing = this.keepRenewing(over.signal, holdFrom, end);
    try {
      if (!over.signal.aborted) {
        this.emit('elected');
        await this.lead(over.signal);
      }
    } finally {
      end('work finished');
      clearTimeout(timer);
      this.stop.signal.removeEventListener('abort', onStop);
      await renewing;
      // only hand over when our own work has come to rest
      await this.redis.eval(RESIGN, 1, this.key, this.id).catch((err) => this.emit('trouble', err));
      this.emit('demoted', reason);
    }
  }

  private async keepRenewing(over: AbortSignal, holdFrom: (t: number) => void, end: (why: string) => void) {
    while (!over.aborted) {
      await sleep(this.leaseMs / 4, undefined, { signal: over }).catch(() => undefined);
      if (over.aborted) return;
      const asked = performance.now();
      try {
        const kept = await this.redis.eval(RENEW, 1, this.key, this.id, this.leaseMs);
        if (over.aborted) return;
        if (kept === 1) holdFrom(asked);
        else end('lost to another node');
      } catch (err) {
        this.emit('trouble', err); // timer from the last renewal goes on
      }
    }
  }
}
