import { randomUUID } from "node:crypto";
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import type { createClient } from "redis";

type RedisClient = ReturnType<typeof createClient>;

export interface Leadership {
  /** Grows with every election; store it with your writes and refuse lower ones. */
  readonly term: number;
  /** Aborted when this process must stop acting as the leader. */
  readonly signal: AbortSignal;
}

export interface LeaderElectionOptions {
  client: RedisClient;
  group: string;
  leaseMs?: number;
  /** Called once per term. Should return soon after `signal` is aborted. */
  onElected: (leadership: Leadership) => Promise<void>;
  onError?: (error: unknown) => void;
}

// One script to run for office and to stay in it. ARGV[3] is '1' if we believe we lead.
const CAMPAIGN = `
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
if holder and ARGV[3] == '1' then return tonumber(redis.call('GET', KEYS[2])) end
return redis.call('INCR', KEYS[2])`;

const RESIGN = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

interface Office {
  term: number;
  until: number;
  controller: AbortController;
  timer?: NodeJS.Timeout;
}

/** Elects one leader among the processes that share `group`. */
export class LeaderElection {
  private readonly id = randomUUID();
  private readonly leaseMs: number;
  private readonly marginMs: number;
  private readonly keys: string[];
  private readonly stopping = new AbortController();
  private office: Office | null = null;
  private work: Promise<void> = Promise.resolve();

  constructor(private readonly options: LeaderElectionOptions) {
    this.leaseMs = options.leaseMs ?? 12_000;
    this.marginMs = Math.ceil(this.leaseMs / 6);
    this.keys = [`{leader:${options.group}}:holder`, `{leader:${options.group}}:term`];
  }

  get isLeader(): boolean {
    return this.office !== null && performance.now() < this.office.until;
  }

  /** Takes part in the election until `stop` is called. */
  async start(): Promise<void> {
    const { signal } = this.stopping;
    while (!signal.aborted) {
      await this.beat().catch((error) => this.options.onError?.(error));
      await sleep(this.leaseMs / 4, undefined, { signal }).catch(() => {});
    }
  }

  /** Lets the current work come to its end, then hands over. */
  async stop(): Promise<void> {
    this.stopping.abort();
    this.demote();
    await this.work;
    await this.options.client
      .eval(RESIGN, { keys: [this.keys[0]], arguments: [this.id] })
      .catch((error: unknown) => this.options.onError?.(error));
  }

  private async beat(): Promise<void> {
    const before = this.office;
    const sentAt = performance.now();
    const reply = await this.options.client.eval(CAMPAIGN, {
      keys: this.keys,
      arguments: [this.id, String(this.leaseMs), before ? "1" : "0"],
    });
    // Stopped, or the lease ran out while we were waiting: the next beat starts afresh.
    if (this.stopping.signal.aborted || this.office !== before) return;

    const term = Number(reply ?? 0);
    const until = sentAt + this.leaseMs - this.marginMs;
    if (term === 0 || until <= performance.now()) return this.demote();

    if (before && before.term === term) {
      before.until = until;
      this.watch(before);
      return;
    }
    this.demote();
    this.elect(term, until);
  }

  private elect(term: number, until: number): void {
    const office: Office = { term, until, controller: new AbortController() };
    const { signal } = office.controller;
    this.office = office;
    this.watch(office);
    // Work of an earlier term is allowed to wind down before the new one begins.
    this.work = this.work
      .then(() => (signal.aborted ? undefined : this.options.onElected({ term, signal })))
      .catch((error) => this.options.onError?.(error));
  }

  private watch(office: Office): void {
    clearTimeout(office.timer);
    office.timer = setTimeout(() => {
      if (this.office === office) this.demote();
    }, Math.max(0, office.until - performance.now()));
  }

  private demote(): void {
    if (!this.office) return;
    clearTimeout(this.office.timer);
    this.office.controller.abort(new Error(`no longer leader (term ${this.office.term})`));
    this.office = null;
  }
}
