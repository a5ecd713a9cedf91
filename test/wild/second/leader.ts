import { EventEmitter } from "node:events";
import { randomUUID } from "node:crypto";
import type Redis from "ioredis";

export interface LeaderOptions {
  key: string;
  leaseMs?: number;
}

const RENEW = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("PEXPIRE", KEYS[1], ARGV[2])
else
  return 0
end`;
const RESIGN = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
else
  return 0
end`;

/** Emits "elected" and "lost". `isLeader` never outlives the lease, whatever Redis does. */
export class LeaderElection extends EventEmitter {
  private readonly leaseMs: number;
  private readonly key: string;
  private id: string | null = null;
  private leaseUntil = 0;
  private leading = false;
  private running = false;
  private expiry?: NodeJS.Timeout;
  private next?: NodeJS.Timeout;
  private round: Promise<void> = Promise.resolve();

  constructor(private readonly redis: Redis, options: LeaderOptions) {
    super();
    this.key = options.key;
    this.leaseMs = options.leaseMs ?? 9_000;
  }

  get isLeader(): boolean {
    return this.leading && performance.now() < this.leaseUntil;
  }

  start(): void {
    if (this.running) return;
    this.running = true;
    this.loop();
  }

  async stop(): Promise<void> {
    this.running = false;
    clearTimeout(this.next);
    await this.round;
    const id = this.id;
    this.stepDown();
    if (id) await this.redis.eval(RESIGN, 1, this.key, id).catch(() => undefined);
  }

  private loop(): void {
    this.round = this.campaign()
      .catch((err) => {
        // leaseUntil was not moved: the expiry timer makes us step down when it is time
        console.warn("leader election:", (err as Error).message);
      })
      .then(() => {
        if (!this.running) return;
        const pause = this.leaseMs / 3 + Math.random() * (this.leaseMs / 10);
        this.next = setTimeout(() => this.loop(), pause);
      });
  }

  private async campaign(): Promise<void> {
    const asked = performance.now();
    if (this.id && this.leading) {
      const id = this.id;
      const kept = await this.redis.eval(RENEW, 1, this.key, id, this.leaseMs);
      if (kept === 1 && this.isLeader && this.id === id) {
        this.lead(asked);
        return;
      }
      this.stepDown();
      // renewed too late to be of use: give it to the others
      if (kept === 1) await this.redis.eval(RESIGN, 1, this.key, id);
      return;
    }

    // a new term gets a new id, an old reply can't be mistaken for it
    const id = randomUUID();
    let reply: string | null = null;
    try {
      reply = await this.redis.set(this.key, id, "PX", this.leaseMs, "NX");
    } catch (err) {
      await this.redis.eval(RESIGN, 1, this.key, id).catch(() => undefined);
      throw err;
    }
    if (reply !== "OK") return;
    if (performance.now() >= asked + this.leaseMs * 0.95) {
      await this.redis.eval(RESIGN, 1, this.key, id);
      return;
    }
    this.id = id;
    this.lead(asked);
  }

  private lead(asked: number): void {
    this.leaseUntil = asked + this.leaseMs * 0.95;
    clearTimeout(this.expiry);
    this.expiry = setTimeout(() => this.stepDown(), Math.max(0, this.leaseUntil - performance.now()));
    if (!this.leading) {
      this.leading = true;
      this.emit("elected");
    }
  }

  private stepDown(): void {
    clearTimeout(this.expiry);
    this.leaseUntil = 0;
    this.id = null;
    if (this.leading) {
      this.leading = false;
      this.emit("lost");
    }
  }
}
