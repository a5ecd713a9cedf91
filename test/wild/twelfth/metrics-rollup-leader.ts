import { randomUUID } from 'node:crypto';
import type { RedisClientType } from 'redis';

// One of the collectors rolls minute metrics up into hours. They elect the one
// through a lease in Redis; `lead` is run once per term and has to end soon
// after its signal fires.

const KEY = 'metrics:rollup:leader';
const LEASE_MS = 15_000;
const MARGIN_MS = 3_000;
const BEAT_MS = 4_000;

const KEEP = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end`;
const RESIGN = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end`;

interface Term {
  token: string;
  over: AbortController;
  work: Promise<void>;
  expiry: NodeJS.Timeout;
}

export class RollupLeader {
  #client: RedisClientType;
  #lead: (signal: AbortSignal) => Promise<void>;
  #log: (msg: string, err?: unknown) => void;
  #term: Term | null = null;
  #timer: NodeJS.Timeout | undefined;
  #beat: Promise<void> = Promise.resolve();
  #state: 'new' | 'running' | 'stopped' = 'new';
  #working = false;

  constructor(
    client: RedisClientType,
    lead: (signal: AbortSignal) => Promise<void>,
    log: (msg: string, err?: unknown) => void = () => {},
  ) {
    this.#client = client;
    this.#lead = lead;
    this.#log = log;
  }

  get leading(): boolean {
    return this.#term !== null;
  }

  start(): void {
    if (this.#state !== 'new') throw new Error('a leader is started once');
    this.#state = 'running';
    this.#schedule(0);
  }

  /** Ends the term, waits for the work to wind up, then lets the next one in. */
  async stop(): Promise<void> {
    this.#state = 'stopped';
    clearTimeout(this.#timer);
    await this.#beat;
    const term = this.#term;
    if (!term) return;
    this.#end(term, 'stopping');
    await term.work;
    await this.#resign(term.token);
  }

  #schedule(ms: number): void {
    this.#timer = setTimeout(() => {
      this.#beat = this.#once().then(() => {
        if (this.#state === 'running') this.#schedule(BEAT_MS);
      });
    }, ms);
  }

  async #once(): Promise<void> {
    const sentAt = performance.now();
    const term = this.#term;
    try {
      if (term) {
        const kept = await this.#client.eval(KEEP, { keys: [KEY], arguments: [term.token, String(LEASE_MS)] });
        if (this.#term !== term) return;
        if (kept === 1) this.#arm(term, sentAt);
        else this.#end(term, 'lease is gone');
        return;
      }

      // the work of the last term has to be off the table first
      if (this.#working) return;

      const token = randomUUID();
      const reply = await this.#client.set(KEY, token, {
        condition: 'NX',
        expiration: { type: 'PX', value: LEASE_MS },
      });
      if (reply !== 'OK') return;
      // an answer this late is worth nothing; and nobody starts while stopping
      if (this.#state !== 'running' || performance.now() - sentAt > LEASE_MS - MARGIN_MS) {
        await this.#resign(token);
        return;
      }
      this.#begin(token, sentAt);
    } catch (err) {
      this.#log('rollup leader: no answer from redis', err);
    }
  }

  #begin(token: string, sentAt: number): void {
    const over = new AbortController();
    const term: Term = { token, over, work: Promise.resolve(), expiry: setTimeout(() => {}, 0) };
    this.#term = term;
    this.#arm(term, sentAt);
    this.#working = true;
    term.work = Promise.resolve()
      .then(() => this.#lead(over.signal))
      .catch((err) => {
        if (!over.signal.aborted) this.#log('rollup failed', err);
      })
      .finally(() => {
        this.#working = false;
      });
  }

  #arm(term: Term, sentAt: number): void {
    clearTimeout(term.expiry);
    const left = sentAt + LEASE_MS - MARGIN_MS - performance.now();
    term.expiry = setTimeout(() => this.#end(term, 'lease not renewed in time'), Math.max(0, left));
  }

  #end(term: Term, why: string): void {
    clearTimeout(term.expiry);
    if (this.#term === term) this.#term = null;
    term.over.abort(new Error(why));
  }

  async #resign(token: string): Promise<void> {
    await this.#client.eval(RESIGN, { keys: [KEY], arguments: [token] }).catch((err) => {
      this.#log('rollup leader: lease left to expire', err);
    });
  }
}
