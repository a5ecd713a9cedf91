import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

/** Takes the seat if it is free and counts the term up in the same step. */
const CAMPAIGN = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return false`;

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

export interface Hooks {
  /** `term` only ever grows; store it with every write and refuse smaller ones. */
  onElected(term: number, signal: AbortSignal): void;
  onDemoted(term: number, reason: string): void | Promise<void>;
  onError?(err: unknown): void;
}

interface Seat {
  token: string;
  term: number;
  validUntil: number;
  abort: AbortController;
}

export class LeaderElection {
  #redis: Redis;
  #key: string;
  #termKey: string;
  #ttlMs: number;
  #hooks: Hooks;
  #seat: Seat | null = null;
  #guard: NodeJS.Timeout | undefined;
  #stopping: AbortController | null = null;
  #loop: Promise<void> | null = null;

  constructor(redis: Redis, group: string, hooks: Hooks, ttlMs = 15_000) {
    this.#redis = redis;
    this.#key = `leader:{${group}}`;
    this.#termKey = `leader:{${group}}:term`;
    this.#ttlMs = ttlMs;
    this.#hooks = hooks;
  }

  get isLeader(): boolean {
    return this.#seat !== null && performance.now() < this.#seat.validUntil;
  }

  start(): void {
    if (this.#loop) throw new Error('already started');
    this.#stopping = new AbortController();
    this.#loop = this.#run(this.#stopping.signal);
  }

  async stop(): Promise<void> {
    if (!this.#loop) return;
    const seat = this.#seat;
    this.#stopping?.abort();
    await this.#demote('stopped');
    await this.#loop;
    this.#loop = null;
    if (seat) await this.#resign(seat.token);
  }

  async #run(stopping: AbortSignal): Promise<void> {
    while (!stopping.aborted) {
      try {
        if (this.#seat) await this.#renew(this.#seat);
        else await this.#campaign(stopping);
      } catch (err) {
        // Still leader until the guard says otherwise; the next round tries again.
        this.#hooks.onError?.(err);
      }
      await sleep(this.#ttlMs / 4, undefined, { signal: stopping }).catch(() => {});
    }
  }

  async #campaign(stopping: AbortSignal): Promise<void> {
    const token = randomUUID();
    const sentAt = performance.now();
    const term = await this.#redis.eval(CAMPAIGN, 2, this.#key, this.#termKey, token, this.#ttlMs);
    if (typeof term !== 'number') return;
    const validUntil = sentAt + this.#ttlMs * 0.8;
    if (stopping.aborted || performance.now() >= validUntil) return this.#resign(token);

    const seat: Seat = { token, term, validUntil, abort: new AbortController() };
    this.#seat = seat;
    this.#armGuard(seat);
    this.#hooks.onElected(term, seat.abort.signal);
  }

  async #renew(seat: Seat): Promise<void> {
    const sentAt = performance.now();
    const renewed = await this.#redis.eval(RENEW, 1, this.#key, seat.token, this.#ttlMs);
    if (this.#seat !== seat) return;
    if (renewed !== 1) return this.#demote('seat taken or expired');
    seat.validUntil = sentAt + this.#ttlMs * 0.8;
    this.#armGuard(seat);
  }

  /** Steps down in time even when Redis does not answer at all. */
  #armGuard(seat: Seat): void {
    clearTimeout(this.#guard);
    const ms = Math.max(0, seat.validUntil - performance.now());
    this.#guard = setTimeout(() => void this.#demote('could not renew in time'), ms);
  }

  async #demote(reason: string): Promise<void> {
    const seat = this.#seat;
    if (!seat) return;
    this.#seat = null;
    clearTimeout(this.#guard);
    seat.abort.abort(new Error(reason));
    try {
      await this.#hooks.onDemoted(seat.term, reason);
    } catch (err) {
      this.#hooks.onError?.(err);
    }
  }

  async #resign(token: string): Promise<void> {
    await this.#redis.eval(RESIGN, 1, this.#key, token).catch((err) => this.#hooks.onError?.(err));
  }
}
