import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const LEASE_MS = 15_000;
const RENEW_EVERY_MS = 5_000;
// We stop acting as leader this long before Redis would let someone else in.
const SAFETY_MS = 3_000;

/**
 * Leader election on top of a single Redis key with a TTL.
 *
 * Followers try to create the key, the leader keeps it alive. If the leader dies
 * the key expires and one of the followers takes over within LEASE_MS.
 */
export class LeaderElection {
  readonly #redis: Redis;
  readonly #key: string;
  readonly #id = randomUUID();
  #role: 'leader' | 'follower' = 'follower';
  #leaseUntil = 0;
  #ticking = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(redis: Redis, group: string) {
    this.#redis = redis;
    this.#key = `leader:${group}`;
  }

  start(): void {
    if (this.#timer) return;
    this.#timer = setInterval(() => void this.#tick(), RENEW_EVERY_MS);
    void this.#tick();
  }

  /** Stops renewing. The lease runs out by itself, so work in flight stays covered. */
  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  isLeader(): boolean {
    return this.#role === 'leader' && performance.now() < this.#leaseUntil;
  }

  /**
   * Runs the task on the leader only. Long tasks should call `stillLeader()`
   * before each side effect and bail out when it returns false.
   */
  async runIfLeader(task: (stillLeader: () => boolean) => Promise<void>): Promise<boolean> {
    if (!this.isLeader()) return false;
    await task(() => this.isLeader());
    return true;
  }

  async #tick(): Promise<void> {
    if (this.#ticking) return;
    this.#ticking = true;
    // Taken before the request, so a slow reply never makes the lease look longer than it is.
    const sentAt = performance.now();
    try {
      const reply =
        this.#role === 'leader'
          ? // Renew: the key has to exist already, we never recreate an expired lease.
            await this.#redis.set(this.#key, this.#id, 'PX', LEASE_MS, 'XX')
          : // Campaign: only one candidate can create the key.
            await this.#redis.set(this.#key, this.#id, 'PX', LEASE_MS, 'NX');

      if (reply === 'OK') {
        if (this.#role === 'follower') console.info(`[leader] ${this.#id} elected for ${this.#key}`);
        this.#role = 'leader';
        this.#leaseUntil = sentAt + LEASE_MS - SAFETY_MS;
      } else {
        if (this.#role === 'leader') console.warn(`[leader] ${this.#id} stepped down`);
        this.#role = 'follower';
        this.#leaseUntil = 0;
      }
    } catch (err) {
      // Redis is unreachable: keep the current lease, isLeader() turns false once it runs out.
      console.error('[leader] tick failed', err);
    } finally {
      this.#ticking = false;
    }
  }
}
