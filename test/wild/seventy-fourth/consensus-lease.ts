import { randomBytes } from "node:crypto";
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient } from "redis";

type Node = ReturnType<typeof createClient>;

export interface LeaseManagerOptions {
  /** Addresses of independent Redis masters (no replicas of each other), ideally 3 or 5. */
  urls: string[];
  /** A node that has not answered after this many ms counts as a "no". */
  nodeTimeoutMs?: number;
  retries?: number;
  retryDelayMs?: number;
}

export class LeaseUnavailableError extends Error {}
export class LeaseExpiredError extends Error {}

const EXTEND = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`;
const REMOVE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

/** Allowance for clocks that run at slightly different speeds. */
const drift = (ttlMs: number) => Math.ceil(ttlMs * 0.01) + 2;

/**
 * Locks that survive the loss of a minority of the nodes. A node that restarts without its
 * data must stay out for at least the longest TTL in use (or run with appendfsync always).
 */
export class LeaseManager {
  private readonly nodes: Node[];
  readonly quorum: number;

  constructor(private readonly options: LeaseManagerOptions) {
    this.nodes = options.urls.map((url) => {
      const node = createClient({ url, disableOfflineQueue: true });
      node.on("error", (err: Error) => console.warn(`lease node ${url}: ${err.message}`));
      return node;
    });
    this.quorum = Math.floor(this.nodes.length / 2) + 1;
  }

  /** Starts connecting; nodes that are down keep trying in the background. */
  connect(): void {
    for (const node of this.nodes) node.connect().catch(() => {});
  }

  async acquire(key: string, ttlMs: number): Promise<Lease> {
    const { retries = 5, retryDelayMs = 150 } = this.options;
    for (let attempt = 0; ; attempt++) {
      const token = randomBytes(16).toString("hex");
      const start = performance.now();
      const votes = await this.poll((node) => node.set(key, token, { NX: true, PX: ttlMs }), "OK");
      const validUntil = start + ttlMs - drift(ttlMs);
      if (votes >= this.quorum && performance.now() < validUntil) {
        return new Lease(this, key, token, validUntil);
      }
      await this.remove(key, token);
      if (attempt >= retries) throw new LeaseUnavailableError(`"${key}": ${votes}/${this.nodes.length} votes`);
      await sleep(retryDelayMs * (0.5 + Math.random()));
    }
  }

  /** @internal */
  async prolong(key: string, token: string, ttlMs: number): Promise<number | null> {
    const start = performance.now();
    const votes = await this.poll(
      (node) => node.eval(EXTEND, { keys: [key], arguments: [token, String(ttlMs)] }),
      1,
    );
    return votes >= this.quorum ? start + ttlMs - drift(ttlMs) : null;
  }

  /** @internal Asks every node, including those that did not answer in time before. */
  async remove(key: string, token: string): Promise<void> {
    await this.poll((node) => node.eval(REMOVE, { keys: [key], arguments: [token] }), 1);
  }

  private async poll(ask: (node: Node) => Promise<unknown>, yes: unknown): Promise<number> {
    const timeoutMs = this.options.nodeTimeoutMs ?? 80;
    const answers = await Promise.all(
      this.nodes.map(async (node) => {
        let timer: NodeJS.Timeout | undefined;
        const timeout = new Promise<void>((resolve) => (timer = setTimeout(resolve, timeoutMs)));
        try {
          return (await Promise.race([ask(node), timeout])) === yes;
        } catch {
          return false;
        } finally {
          clearTimeout(timer);
        }
      }),
    );
    return answers.filter(Boolean).length;
  }
}

export class Lease {
  private readonly controller = new AbortController();
  private timer?: NodeJS.Timeout;

  constructor(
    private readonly manager: LeaseManager,
    readonly key: string,
    private readonly token: string,
    private validUntil: number,
  ) {
    this.arm();
  }

  /** Aborted as soon as the lease is no longer known to be ours. */
  get signal(): AbortSignal {
    return this.controller.signal;
  }

  get remainingMs(): number {
    return this.signal.aborted ? 0 : Math.max(0, this.validUntil - performance.now());
  }

  async extend(ttlMs: number): Promise<void> {
    if (this.remainingMs <= 0) throw new LeaseExpiredError(this.key);
    const until = await this.manager.prolong(this.key, this.token, ttlMs);
    if (until === null || this.signal.aborted || performance.now() >= until) {
      this.end(`could not extend "${this.key}"`);
      throw new LeaseExpiredError(this.key);
    }
    this.validUntil = until;
    this.arm();
  }

  /** Call when the work has ended (also when it ended because of `signal`). */
  async release(): Promise<void> {
    this.end(`"${this.key}" was released`);
    await this.manager.remove(this.key, this.token);
  }

  private arm(): void {
    clearTimeout(this.timer);
    const left = Math.max(0, this.validUntil - performance.now());
    this.timer = setTimeout(() => this.end(`"${this.key}" ran out`), left);
  }

  private end(reason: string): void {
    clearTimeout(this.timer);
    if (!this.signal.aborted) this.controller.abort(new LeaseExpiredError(reason));
  }
}
