import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';

const RENEW = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end`;
const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end`;

/** Runs as long as this process leads; has to end soon after the signal. */
export type Lead = (signal: AbortSignal, isLeader: () => boolean) => Promise<void>;

interface Term {
  token: string;
  until: number;
  resign: AbortController;
  expiry?: NodeJS.Timeout;
  work?: Promise<void>;
}

export class LeaderElection {
  private readonly redis: Redis;
  private readonly key: string;
  private readonly lead: Lead;
  private readonly ttlMs: number;
  private state: 'new' | 'running' | 'stopped' = 'new';
  private term: Term | undefined;
  private nextTick: NodeJS.Timeout | undefined;

  constructor(redis: Redis, group: string, lead: Lead, ttlMs = 15_000) {
    this.redis = redis;
    this.key = `leader:${group}`;
    this.lead = lead;
    this.ttlMs = ttlMs;
  }

  start(): void {
    if (this.state !== 'new') throw new Error('an election is started once');
    this.state = 'running';
    void this.tick();
  }

  /** Resolves when our work has ended and the key is free. */
  async stop(): Promise<void> {
    this.state = 'stopped';
    clearTimeout(this.nextTick);
    this.term?.resign.abort();
    await this.term?.work;
  }

  private async tick(): Promise<void> {
    try {
      if (!this.term) await this.campaign();
      else if (!this.term.resign.signal.aborted) await this.renew(this.term);
      // else: the work of the last term is still winding down, no new one before that
    } catch (err) {
      console.warn('election %s: %s', this.key, err);
    }
    if (this.state === 'running') this.nextTick = setTimeout(() => void this.tick(), this.ttlMs / 3);
  }

  private async campaign(): Promise<void> {
    const token = randomUUID();
    const sentAt = performance.now();
    let reply: 'OK' | null;
    try {
      reply = await this.redis.set(this.key, token, 'PX', this.ttlMs, 'NX');
    } catch (err) {
      await this.release(token);
      throw err;
    }
    if (reply !== 'OK') return;
    const until = sentAt + this.ttlMs * 0.9;
    if (this.state !== 'running' || performance.now() >= until) return this.release(token);

    const term: Term = { token, until, resign: new AbortController() };
    this.term = term;
    this.arm(term);
    const isLeader = () => !term.resign.signal.aborted && performance.now() < term.until;
    term.work = Promise.resolve()
      .then(() => this.lead(term.resign.signal, isLeader))
      .catch((err: unknown) => console.error('leader work of %s failed: %s', this.key, err))
      .then(() => this.endOf(term));
  }

  private async renew(term: Term): Promise<void> {
    const sentAt = performance.now();
    const renewed = await this.redis.eval(RENEW, 1, this.key, term.token, this.ttlMs);
    if (term.resign.signal.aborted) return;
    if (renewed !== 1) return term.resign.abort();
    term.until = sentAt + this.ttlMs * 0.9;
    this.arm(term);
  }

  private arm(term: Term): void {
    clearTimeout(term.expiry);
    term.expiry = setTimeout(() => term.resign.abort(), Math.max(0, term.until - performance.now()));
  }

  private async endOf(term: Term): Promise<void> {
    clearTimeout(term.expiry);
    term.resign.abort();
    await this.release(term.token);
    this.term = undefined;
  }

  private async release(token: string): Promise<void> {
    await this.redis.eval(RELEASE, 1, this.key, token).catch(() => undefined); // the TTL does it otherwise
  }
}
