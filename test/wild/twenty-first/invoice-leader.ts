import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

const TTL_MS = 15_000;
const MARGIN_MS = 3_000;

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

export interface Term {
  /** Aborts when the term is over, for whatever reason. */
  readonly signal: AbortSignal;
  /** Call right before every side effect. */
  assertLeading(): void;
}

export class LeaderElector {
  #redis: Redis;
  #key: string;
  #lead: (term: Term) => Promise<void>;

  constructor(redis: Redis, key: string, lead: (term: Term) => Promise<void>) {
    this.#redis = redis;
    this.#key = key;
    this.#lead = lead;
  }

  async run(stop: AbortSignal): Promise<void> {
    while (!stop.aborted) {
      const token = randomUUID(); // one per term, never reused
      const askedAt = performance.now();
      try {
        if ((await this.#redis.set(this.#key, token, 'PX', TTL_MS, 'NX')) === 'OK') {
          await this.#serve(token, askedAt, stop);
        }
      } catch (err) {
        console.error('leader term ended with an error', err);
      }
      await sleep(1_000 + Math.random() * 2_000, undefined, { signal: stop }).catch(() => {});
    }
  }

  async #serve(token: string, askedAt: number, stop: AbortSignal): Promise<void> {
    const lost = new AbortController();
    const signal = AbortSignal.any([stop, lost.signal]);
    let validUntil = askedAt + TTL_MS - MARGIN_MS;
    const leading = () => !signal.aborted && performance.now() < validUntil;

    let alarm: NodeJS.Timeout | undefined;
    const setAlarm = () => {
      clearTimeout(alarm);
      alarm = setTimeout(
        () => lost.abort(new Error('leader lease ran out')),
        Math.max(0, validUntil - performance.now()),
      );
    };

    const renewLoop = async () => {
      while (leading()) {
        await sleep(TTL_MS / 5, undefined, { signal }).catch(() => {});
        if (!leading()) return;
        const sentAt = performance.now();
        try {
          const kept = await this.#redis.eval(RENEW, 1, this.#key, token, TTL_MS);
          if (kept !== 1) {
            lost.abort(new Error('leader lease is gone'));
          } else if (leading()) {
            validUntil = sentAt + TTL_MS - MARGIN_MS;
            setAlarm();
          }
        } catch (err) {
          console.warn('leader renewal failed, lease not prolonged', err);
        }
      }
    };

    let renewing: Promise<void> | undefined;
    try {
      if (!leading()) return;
      setAlarm();
      renewing = renewLoop();
      await this.#lead({
        signal,
        assertLeading() {
          if (!leading()) throw new Error('no longer the leader');
        },
      });
    } finally {
      lost.abort(new Error('term finished'));
      clearTimeout(alarm);
      await renewing;
      await this.#redis.eval(RESIGN, 1, this.#key, token).catch(() => {});
    }
  }
}

export function startInvoiceReminders(mail: { next(): Promise<string | null>; remind(id: string): Promise<void> }, stop: AbortSignal) {
  const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', { commandTimeout: 2_000 });
  redis.on('error', (err) => console.warn('redis', err.message));
  return new LeaderElector(redis, 'leader:invoice-reminders', async (term) => {
    for (let id = await mail.next(); id !== null; id = await mail.next()) {
      term.assertLeading();
      await mail.remind(id);
    }
  }).run(stop);
}
