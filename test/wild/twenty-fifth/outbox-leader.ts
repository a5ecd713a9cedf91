import { randomBytes } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

const KEEP = `
  if redis.call("GET", KEYS[1]) ~= ARGV[1] then return 0 end
  return redis.call("PEXPIRE", KEYS[1], ARGV[2])
`;

interface Term {
  token: string;
  ctl: AbortController;
  timer?: NodeJS.Timeout;
}

export interface ElectionOptions {
  redis: Redis;
  role: string;
  ttlMs?: number;
  /** How long before the end of the lease we stop calling ourselves the leader. */
  safetyMs?: number;
}

/**
 * Emits "elected" (with an AbortSignal that ends with the term) and "deposed" (with a reason).
 *
 * A term's key is never deleted, only left to expire: whoever listens to "elected" may need a
 * moment to wind down after the signal, and a successor must not start meanwhile.
 */
export class Election extends EventEmitter {
  #redis: Redis;
  #key: string;
  #ttl: number;
  #safety: number;
  #term: Term | null = null;
  #stopped = new AbortController();

  constructor({ redis, role, ttlMs = 20_000, safetyMs = 6_000 }: ElectionOptions) {
    super();
    this.#redis = redis;
    this.#key = `leader:{${role}}`;
    this.#ttl = ttlMs;
    this.#safety = safetyMs;
  }

  async campaign(): Promise<void> {
    while (!this.#stopped.signal.aborted) {
      try {
        await (this.#term ? this.#keep(this.#term) : this.#stand());
      } catch (err) {
        this.emit('trouble', err); // the term's own timer decides how long we may go on
      }
      await sleep(this.#ttl / 5, undefined, { signal: this.#stopped.signal }).catch(() => {});
    }
    if (this.#term) this.#depose(this.#term, 'stopped');
  }

  stop(): void {
    this.#stopped.abort();
  }

  async #stand(): Promise<void> {
    const asked = performance.now();
    const token = randomBytes(16).toString('hex');
    const answer = await this.#redis.set(this.#key, token, 'PX', this.#ttl, 'NX');
    if (answer !== 'OK' || this.#stopped.signal.aborted) return;
    if (this.#left(asked) <= 0) return;
    const term: Term = { token, ctl: new AbortController() };
    this.#term = term;
    this.#arm(term, asked);
    this.emit('elected', term.ctl.signal);
  }

  async #keep(term: Term): Promise<void> {
    const asked = performance.now();
    const kept = await this.#redis.eval(KEEP, 1, this.#key, term.token, this.#ttl);
    if (this.#term !== term) return; // deposed by its timer while we waited
    if (kept === 1) this.#arm(term, asked);
    else this.#depose(term, 'lost');
  }

  #left(asked: number): number {
    return asked + this.#ttl - this.#safety - performance.now();
  }

  #arm(term: Term, asked: number): void {
    clearTimeout(term.timer);
    term.timer = setTimeout(() => this.#depose(term, 'not renewed in time'), Math.max(0, this.#left(asked)));
  }

  #depose(term: Term, reason: string): void {
    if (this.#term !== term) return;
    this.#term = null;
    clearTimeout(term.timer);
    term.ctl.abort(new Error(`no longer leader: ${reason}`));
    this.emit('deposed', reason);
  }
}

/** Publishes the outbox in order, from the leader only. A publish call gives up after 2 s. */
export function publishWhenLeader(election: Election, outbox: { publishNext(s: AbortSignal): Promise<boolean> }) {
  election.on('elected', async (signal: AbortSignal) => {
    while (!signal.aborted) {
      try {
        const some = await outbox.publishNext(AbortSignal.any([signal, AbortSignal.timeout(2_000)]));
        if (!some) await sleep(300, undefined, { signal });
      } catch (err) {
        if (!signal.aborted) election.emit('trouble', err);
        await sleep(1_000, undefined, { signal }).catch(() => {});
      }
    }
  });
}
