import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

export interface Update {
  update_id: number;
  message?: { chat: { id: number }; text?: string };
}

/** Has to settle promptly once the signal fires. Sees an update again if it was cut short. */
export type UpdateHandler = (update: Update, signal: AbortSignal) => Promise<void>;

const LEADER_KEY = '{tg-poller}:leader';
const OFFSET_KEY = '{tg-poller}:offset';
const TERM_MS = 30_000;
const RENEW_EVERY_MS = 5_000;
const REPLY_WAIT_MS = 2_000;
const CLOSE_MS = 5_000;

const RENEW = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) end return 0`;
const RESIGN = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`;
const SAVE_OFFSET = `if redis.call("GET", KEYS[1]) == ARGV[1] then redis.call("SET", KEYS[2], ARGV[2]) return 1 end return 0`;

/** Telegram allows a single getUpdates consumer per bot; the replicas elect it. */
export class TelegramPoller {
  readonly #redis: Redis;
  readonly #handle: UpdateHandler;
  readonly #api: string;

  constructor(redis: Redis, botToken: string, handle: UpdateHandler) {
    this.#redis = redis;
    this.#handle = handle;
    this.#api = `https://api.telegram.org/bot${botToken}`;
  }

  async run(stop: AbortSignal): Promise<void> {
    while (!stop.aborted) {
      const ballot = randomUUID();
      const askedAt = performance.now();
      const reply = await this.#redis.set(LEADER_KEY, ballot, 'PX', TERM_MS, 'NX').catch(() => null);
      if (reply === 'OK') await this.#lead(ballot, askedAt + TERM_MS, stop);
      await sleep(3_000, undefined, { signal: stop }).catch(() => {});
    }
  }

  async #lead(ballot: string, until: number, stop: AbortSignal): Promise<void> {
    const term = new AbortController();
    const ended = new AbortController();
    const polling = this.#poll(ballot, term.signal)
      .catch((err) => {
        if (!term.signal.aborted) console.error('polling ended', err);
      })
      .finally(() => ended.abort());
    const pause = AbortSignal.any([ended.signal, stop]);

    while (!pause.aborted) {
      // Step down while there is still time to close the poll.
      if (performance.now() + RENEW_EVERY_MS + REPLY_WAIT_MS + CLOSE_MS > until) break;
      await sleep(RENEW_EVERY_MS, undefined, { signal: pause }).catch(() => {});
      if (pause.aborted) break;
      const sentAt = performance.now();
      const reply = await Promise.race([
        this.#redis.eval(RENEW, 1, LEADER_KEY, ballot, TERM_MS).catch(() => 'unknown'),
        sleep(REPLY_WAIT_MS, 'unknown'),
      ]);
      if (reply === 1) until = sentAt + TERM_MS;
      else if (reply === 0) break;
    }

    term.abort(new Error('no longer the polling leader'));
    await polling;
    await this.#redis.eval(RESIGN, 1, LEADER_KEY, ballot).catch(() => {});
  }

  async #poll(ballot: string, signal: AbortSignal): Promise<void> {
    let offset = Number((await this.#redis.get(OFFSET_KEY)) ?? 0);
    for (;;) {
      signal.throwIfAborted();
      const res = await fetch(`${this.#api}/getUpdates?timeout=20&offset=${offset}`, { signal });
      if (!res.ok) throw new Error(`getUpdates answered ${res.status}`);
      const { result } = (await res.json()) as { result: Update[] };
      for (const update of result) {
        signal.throwIfAborted();
        await this.#handle(update, signal);
        signal.throwIfAborted();
        const saved = await this.#redis.eval(
          SAVE_OFFSET, 2, LEADER_KEY, OFFSET_KEY, ballot, update.update_id + 1,
        );
        if (saved !== 1) throw new Error('leadership lost before the offset was saved');
        offset = update.update_id + 1;
      }
    }
  }
}
