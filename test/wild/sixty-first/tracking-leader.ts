import { randomUUID } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import axios from 'axios';
import Redis from 'ioredis';
import pino from 'pino';

import { saveTrackingEvents } from '../db';

const log = pino({ name: 'tracking-leader' });

const RENEW = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;
const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

export interface Term {
  signal: AbortSignal;
  stillLeader(): boolean;
}

interface ElectorOptions {
  key: string;
  ttlMs: number;
  duty: (term: Term) => Promise<void>;
}

export class LeaderElector extends EventEmitter {
  private readonly shutdown = new AbortController();
  private running?: Promise<void>;

  constructor(private readonly redis: Redis, private readonly opts: ElectorOptions) {
    super();
  }

  start(): void {
    this.running ??= this.campaign();
  }

  async stop(): Promise<void> {
    this.shutdown.abort(new Error('shutting down'));
    await this.running;
  }

  private async campaign(): Promise<void> {
    const { key, ttlMs } = this.opts;
    while (!this.shutdown.signal.aborted) {
      const token = randomUUID();
      const sentAt = performance.now();
      try {
        const reply = await this.redis.set(key, token, 'PX', ttlMs, 'NX');
        if (reply === 'OK') await this.serve(token, sentAt);
      } catch (err) {
        log.warn({ err, key }, 'campaign attempt failed');
      }
      await sleep(ttlMs / 3, undefined, { signal: this.shutdown.signal }).catch(() => {});
    }
  }

  private async serve(token: string, sentAt: number): Promise<void> {
    const { key, ttlMs, duty } = this.opts;
    const marginMs = ttlMs / 5;
    const term = new AbortController();
    const finished = new AbortController();
    let validUntil = sentAt + ttlMs - marginMs;

    const lose = (reason: string) => {
      if (term.signal.aborted) return;
      log.warn({ key, reason }, 'leadership lost');
      term.abort(new Error(reason));
      this.emit('lost', reason);
    };
    let watchdog = setTimeout(() => lose('lease ran out'), Math.max(0, validUntil - performance.now()));
    const onShutdown = () => term.abort(this.shutdown.signal.reason);
    this.shutdown.signal.addEventListener('abort', onShutdown, { once: true });
    if (this.shutdown.signal.aborted) onShutdown();

    const renewals = (async () => {
      while (!finished.signal.aborted) {
        await sleep(ttlMs / 5, undefined, { signal: finished.signal }).catch(() => {});
        if (finished.signal.aborted) return;
        const renewSentAt = performance.now();
        try {
          const renewed = await this.redis.eval(RENEW, 1, key, token, ttlMs);
          if (renewed !== 1) return lose('lease taken over');
          if (renewSentAt >= validUntil) return lose('lease ran out');
          validUntil = renewSentAt + ttlMs - marginMs;
          clearTimeout(watchdog);
          watchdog = setTimeout(() => lose('lease ran out'), Math.max(0, validUntil - performance.now()));
        } catch (err) {
          log.warn({ err, key }, 'renewal failed');
        }
      }
    })();

    this.emit('elected');
    try {
      await duty({
        signal: term.signal,
        stillLeader: () => !term.signal.aborted && performance.now() < validUntil,
      });
    } catch (err) {
      if (!term.signal.aborted) log.error({ err }, 'duty failed');
    } finally {
      finished.abort();
      await renewals;
      clearTimeout(watchdog);
      this.shutdown.signal.removeEventListener('abort', onShutdown);
      await this.redis.eval(RELEASE, 1, key, token).catch((err) => log.warn({ err, key }, 'release failed'));
    }
  }
}

async function pollCarriers({ signal, stillLeader }: Term): Promise<void> {
  let cursor = '';
  while (stillLeader()) {
    const { data } = await axios.get(`${process.env.CARRIER_HUB_URL}/events`, {
      params: { after: cursor, limit: 200 },
      timeout: 5_000,
      signal,
    });
    if (!stillLeader()) return;
    // upsert on (carrier, event_id)
    await saveTrackingEvents(data.events);
    cursor = data.next;
    if (data.events.length === 0) await sleep(2_000, undefined, { signal });
  }
}

const redis = new Redis(process.env.REDIS_URL!, { commandTimeout: 2_000 });
export const elector = new LeaderElector(redis, { key: 'leader:tracking-poller', ttlMs: 15_000, duty: pollCarriers });

elector.start();
process.once('SIGTERM', async () => {
  await elector.stop();
  redis.disconnect();
});
