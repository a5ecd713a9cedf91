import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

type Client = ReturnType<typeof createClient>;

const RENEW = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end`;
const RESIGN = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end`;

export interface Term {
  readonly signal: AbortSignal;
  /** by the clock, so it also says no right after a long pause */
  active(): boolean;
}

export interface ElectionOptions {
  key: string;
  ttlMs: number;
  log: { info(m: string, f?: object): void; warn(m: string, f?: object): void };
}

interface RunningTerm {
  token: string;
  until: number;
  controller: AbortController;
  expiry?: NodeJS.Timeout;
}

export async function connectFromEnv(): Promise<Client> {
  const client = createClient({ url: process.env.REDIS_URL });
  client.on('error', () => {}); // commands fail or wait; the term's clock decides
  await client.connect();
  return client;
}

export class LeaderElection {
  #stopped = false;
  #wake: () => void = () => {};
  #loop?: Promise<void>;

  constructor(
    private readonly client: Client,
    private readonly opts: ElectionOptions,
    private readonly lead: (term: Term) => Promise<void>,
  ) {}

  start(): void {
    this.#loop ??= this.#campaign();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#wake();
    await this.#loop;
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  async #campaign(): Promise<void> {
    const { key, ttlMs, log } = this.opts;
    while (!this.#stopped) {
      const token = randomUUID();
      const askedAt = performance.now();
      let won = false;
      try {
        won = (await this.client.set(key, token, { NX: true, PX: ttlMs })) === 'OK';
      } catch (err) {
        log.warn('campaign failed', { err: String(err) });
      }
      if (won) {
        await this.#serve(token, askedAt);
      }
      if (!this.#stopped) await this.#pause(ttlMs / 3 + Math.random() * 500);
    }
  }

  #extendTo(term: RunningTerm, until: number): void {
    term.until = until;
    clearTimeout(term.expiry);
    term.expiry = setTimeout(() => this.#end(term, 'not renewed in time'), Math.max(0, until - performance.now()));
  }

  #end(term: RunningTerm, why: string): void {
    clearTimeout(term.expiry);
    if (term.controller.signal.aborted) return;
    this.opts.log.info('leadership ends', { why });
    term.controller.abort(new Error(`leadership over: ${why}`));
    this.#wake();
  }

  async #serve(token: string, askedAt: number): Promise<void> {
    const { key, ttlMs, log } = this.opts;
    const margin = ttlMs * 0.2;
    const term: RunningTerm = { token, until: 0, controller: new AbortController() };
    const { signal } = term.controller;
    this.#extendTo(term, askedAt + ttlMs - margin);
    log.info('leading', { token });

    const active = () => !signal.aborted && performance.now() < term.until;
    const work = this.lead({ signal, active })
      .catch((err) => {
        if (!signal.aborted) log.warn('leader work failed', { err: String(err) });
      })
      .finally(() => this.#end(term, 'work finished'));

    while (!signal.aborted) {
      await this.#pause(ttlMs / 4);
      if (this.#stopped) this.#end(term, 'shutting down');
      if (signal.aborted) break;
      const sentAt = performance.now();
      // not awaited for longer than the term lives: the expiry timer ends the term meanwhile
      this.client.eval(RENEW, { keys: [key], arguments: [token, String(ttlMs)] }).then(
        (ok) => {
          if (signal.aborted) return;
          if (ok !== 1) this.#end(term, 'somebody else leads');
          else this.#extendTo(term, Math.max(term.until, sentAt + ttlMs - margin));
        },
        (err) => log.warn('renewal failed', { err: String(err) }),
      );
    }

    await work; // never campaign again while old work is still winding down
    await this.client
      .eval(RESIGN, { keys: [key], arguments: [token] })
      .catch((err) => log.warn('resign failed', { err: String(err) }));
  }
}

export interface Outbox {
  /** UPDATE ... SET status='sending' WHERE id IN (SELECT ... FOR UPDATE SKIP LOCKED) RETURNING * */
  take(limit: number): Promise<Array<{ id: string; payload: string }>>;
  markSent(id: string): Promise<void>;
}

/**
 * Being leader keeps the dispatch order sensible and the database quiet. Two leaders
 * for the length of one batch would be harmless: rows are taken with SKIP LOCKED.
 */
export function dispatchLoop(outbox: Outbox, send: (payload: string) => Promise<void>) {
  return async (term: Term): Promise<void> => {
    while (term.active()) {
      const batch = await outbox.take(50);
      for (const row of batch) {
        await send(row.payload);
        await outbox.markSent(row.id);
      }
      if (batch.length === 0) await new Promise((r) => setTimeout(r, 500));
    }
  };
}
