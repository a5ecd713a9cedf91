import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const PERIOD_MS = 60 * 60 * 1000;
const KEEP_SECONDS = 3 * 60 * 60;

export interface TickResult {
  ran: boolean;
  slot: string;
  error?: unknown;
}

export function slotOf(scheduledFor: Date): string {
  const aligned = Math.floor(scheduledFor.getTime() / PERIOD_MS) * PERIOD_MS;
  return new Date(aligned).toISOString();
}

export function formatDuration(ms: number): string {
  return ms < 1000 ? `${ms}ms` : `${(ms / 1000).toFixed(1)}s`;
}

/**
 * Every pod runs the same crontab. The pod that claims the slot sends the
 * statements; the claim stays in place so that a pod which fires late skips.
 */
export class StatementCron {
  private readonly redis: Redis;
  private readonly send: (slot: string) => Promise<void>;

  constructor(redis: Redis, send: (slot: string) => Promise<void>) {
    this.redis = redis;
    this.send = send;
  }

  private async claim(slot: string): Promise<boolean> {
    const key = `cron:statements:${slot}`;
    const runId = randomUUID();
    const reply = await this.redis.set(key, runId, 'EX', KEEP_SECONDS, 'NX');
    if (reply === 'OK') return true;
    // ioredis re-sends after a reconnect, the first one may have been ours
    return (await this.redis.get(key)) === runId;
  }

  async tick(scheduledFor: Date): Promise<TickResult> {
    const slot = slotOf(scheduledFor);
    let mine = false;
    try {
      mine = await this.claim(slot);
    } catch (error) {
      console.error('statement cron: redis unavailable, skipping', slot, error);
      return { ran: false, slot, error };
    }
    if (!mine) return { ran: false, slot };

    const t0 = Date.now();
    try {
      await this.send(slot);
      console.info('statements sent', slot, formatDuration(Date.now() - t0));
      return { ran: true, slot };
    } catch (error) {
      console.error('statements failed', slot, error);
      return { ran: true, slot, error };
    }
  }
}
