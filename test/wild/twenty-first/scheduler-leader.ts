import { EventEmitter } from "node:events";
import { randomUUID } from "node:crypto";
import { createClient } from "redis";

type Client = ReturnType<typeof createClient>;

const RENEW = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("PEXPIRE", KEYS[1], ARGV[2])
end
return 0`;

const RESIGN = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0`;

/**
 * Exactly one scheduler pod fires the tenant schedules. Pods compete for one key; the
 * holder renews it three times per ttl and the others keep trying.
 *
 * Events: "elected", "demoted"
 */
export class SchedulerLeader extends EventEmitter {
  readonly #client: Client;
  readonly #key: string;
  readonly #ttlMs: number;
  readonly #id = randomUUID();
  #leading = false;
  #stopped = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(client: Client, key: string, ttlMs = 15_000) {
    super();
    this.#client = client;
    this.#key = key;
    this.#ttlMs = ttlMs;
  }

  get leading(): boolean {
    return this.#leading;
  }

  start(): void {
    void this.#tick();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#setLeading(false);
    await this.#client.eval(RESIGN, { keys: [this.#key], arguments: [this.#id] });
  }

  async #tick(): Promise<void> {
    try {
      const won = this.#leading ? await this.#renew() : await this.#campaign();
      if (!this.#stopped) this.#setLeading(won);
    } catch (err) {
      // redis restarting or a blip on the network: the next tick sorts it out
      console.warn("scheduler-leader: tick failed", err);
    } finally {
      if (!this.#stopped) this.#timer = setTimeout(() => void this.#tick(), this.#ttlMs / 3);
    }
  }

  async #campaign(): Promise<boolean> {
    const reply = await this.#client.set(this.#key, this.#id, { NX: true, PX: this.#ttlMs });
    return reply === "OK";
  }

  async #renew(): Promise<boolean> {
    const kept = await this.#client.eval(RENEW, {
      keys: [this.#key],
      arguments: [this.#id, String(this.#ttlMs)],
    });
    return kept === 1;
  }

  #setLeading(value: boolean): void {
    if (value === this.#leading) return;
    this.#leading = value;
    this.emit(value ? "elected" : "demoted");
  }
}

export async function startScheduler(fireDueSchedules: () => Promise<void>): Promise<SchedulerLeader> {
  const client = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
  client.on("error", (err) => console.warn("redis", err.message));
  await client.connect();

  const leader = new SchedulerLeader(client, "scheduler:leader");
  let loop: NodeJS.Timeout | undefined;
  leader.on("elected", () => {
    loop = setInterval(() => {
      if (leader.leading) fireDueSchedules().catch((err) => console.error("schedules", err));
    }, 1_000);
  });
  leader.on("demoted", () => clearInterval(loop));
  leader.start();
  return leader;
}
