import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { createClient } from 'redis';

type Redis = ReturnType<typeof createClient>;

const RENEW = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export class LeaseLost extends Error {}

/** One job is handled by one worker at a time, however many workers poll the same table. */
export abstract class ExclusiveWorker<Job extends { id: string }> {
  protected readonly ttlMs = 30_000;
  /** We stop this long before Redis would let the key go. */
  protected readonly marginMs = 10_000;

  constructor(protected readonly redis: Redis) {}

  protected abstract candidates(): Promise<Job[]>;
  protected abstract handle(job: Job, signal: AbortSignal): Promise<void>;

  async run(stop: AbortSignal): Promise<void> {
    while (!stop.aborted) {
      for (const job of await this.candidates()) {
        if (stop.aborted) return;
        try {
          await this.exclusively(job.id, (signal) => this.handle(job, signal));
        } catch (err) {
          console.error(`job ${job.id} will be tried again`, err);
        }
      }
      await sleep(2_000);
    }
  }

  private async exclusively(id: string, work: (signal: AbortSignal) => Promise<void>): Promise<boolean> {
    const key = `job-lease:${id}`;
    const token = randomUUID();
    let validUntil = performance.now() + this.ttlMs;
    if ((await this.redis.set(key, token, { NX: true, PX: this.ttlMs })) !== 'OK') return false;

    const lost = new AbortController();
    const tooLate = () => performance.now() > validUntil - this.marginMs;

    const renew = async () => {
      const asked = performance.now();
      const kept = await this.redis.eval(RENEW, { keys: [key], arguments: [token, String(this.ttlMs)] });
      if (kept === 1) validUntil = Math.max(validUntil, asked + this.ttlMs);
      else lost.abort(new LeaseLost(key));
    };

    const beat = setInterval(() => {
      if (tooLate()) lost.abort(new LeaseLost(key));
      else renew().catch((err) => console.warn('renewal failed, will try again', err));
    }, this.ttlMs / 6);

    try {
      if (tooLate()) return false; // the answer to SET took too long to be of use
      await work(lost.signal);
      return true;
    } finally {
      clearInterval(beat);
      await this.redis
        .eval(RELEASE, { keys: [key], arguments: [token] })
        .catch((err) => console.warn('release failed, the key will expire', err));
    }
  }
}

interface Campaign { id: string }
interface CampaignStore {
  open(): Promise<Campaign[]>;
  progress(id: string): Promise<{ cursor: number; finished: boolean }>;
  recipients(id: string, from: number, limit: number): Promise<string[]>;
  saveProgress(id: string, cursor: number, finished: boolean): Promise<void>;
}
interface Mailer {
  sendBatch(to: string[], o: { idempotencyKey: string; signal: AbortSignal }): Promise<void>;
}

export class CampaignWorker extends ExclusiveWorker<Campaign> {
  constructor(redis: Redis, private readonly store: CampaignStore, private readonly mailer: Mailer) {
    super(redis);
  }

  protected candidates() {
    return this.store.open();
  }

  protected async handle({ id }: Campaign, signal: AbortSignal): Promise<void> {
    let { cursor, finished } = await this.store.progress(id);
    while (!finished) {
      const batch = await this.store.recipients(id, cursor, 100);
      signal.throwIfAborted();
      if (batch.length > 0) {
        await this.mailer.sendBatch(batch, { idempotencyKey: `${id}:${cursor}`, signal });
      }
      signal.throwIfAborted();
      cursor += batch.length;
      finished = batch.length < 100;
      await this.store.saveProgress(id, cursor, finished);
    }
  }
}
