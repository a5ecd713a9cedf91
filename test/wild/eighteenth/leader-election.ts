import { randomUUID } from "node:crypto";
import { EventEmitter } from "node:events";
import { Redis } from "ioredis";

const CAMPAIGN = `
if redis.call("set", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then return 1 end
if redis.call("get", KEYS[1]) == ARGV[1] then
  redis.call("pexpire", KEYS[1], ARGV[2])
  return 1
end
return 0`;

const RENEW = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("pexpire", KEYS[1], ARGV[2])
end
return 0`;

/** Emits "elected" and "deposed". */
export class LeaderElection extends EventEmitter {
  readonly id = randomUUID();
  readonly #redis: Redis;
  readonly #key: string;
  readonly #leaseMs: number;
  #leading = false;
  #stopped = false;
  #timer: NodeJS.Timeout | undefined;
  #tick: Promise<void> = Promise.resolve();

  constructor(group: string, leaseMs = 15_000) {
    super();
    this.#key = `leader:${group}`;
    this.#leaseMs = leaseMs;
    // an answer is either quick or an error, well within the lease
    this.#redis = new Redis(process.env.REDIS_URL ?? "redis://127.0.0.1:6379", {
      commandTimeout: 2_000,
      maxRetriesPerRequest: 1,
    });
    this.#redis.on("error", (err) => console.warn("[leader] redis:", err.message));
  }

  get isLeader(): boolean {
    return this.#leading;
  }

  start(): void {
    this.#tick = this.#run();
  }

  async #run(): Promise<void> {
    try {
      if (this.#leading) await this.#renew();
      else await this.#campaign();
    } catch (err) {
      // a hiccup of the network; the next round will tell where we stand
      console.warn(`[leader] ${this.#key}: round failed`, err);
    }
    if (this.#stopped) return;
    this.#timer = setTimeout(() => {
      this.#tick = this.#run();
    }, this.#leaseMs / 4);
  }

  async #campaign(): Promise<void> {
    const won = await this.#redis.eval(CAMPAIGN, 1, this.#key, this.id, this.#leaseMs);
    if (won !== 1 || this.#stopped) return;
    this.#leading = true;
    this.emit("elected");
  }

  async #renew(): Promise<void> {
    const renewed = await this.#redis.eval(RENEW, 1, this.#key, this.id, this.#leaseMs);
    if (renewed === 1) return;
    // someone else was elected, or the key is gone: leave and run again
    this.#depose();
  }

  #depose(): void {
    if (!this.#leading) return;
    this.#leading = false;
    this.emit("deposed");
  }

  /** The lease is left to run out: what is being sent right now may finish in it. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    await this.#tick;
    this.#depose();
    this.#redis.disconnect();
  }
}

/** The outbox may have one relay only: messages have to leave in order. */
export async function relayOutbox(election: LeaderElection, sendNext: () => Promise<boolean>): Promise<void> {
  while (election.isLeader) {
    if (!(await sendNext())) await new Promise((resolve) => setTimeout(resolve, 500));
  }
}
