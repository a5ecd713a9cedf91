import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";

const LEADER_KEY = "{reminders}:leader";
const DUE_KEY = "{reminders}:scheduled";
const OUTBOX_KEY = "{reminders}:outbox";

const LEASE_MS = 10_000;
const TICK_MS = 2_000;
const BATCH = 100;

const CAMPAIGN = `
local leader = redis.call("GET", KEYS[1])
if not leader then
  redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2])
  return 1
end
if leader == ARGV[1] then
  redis.call("PEXPIRE", KEYS[1], ARGV[2])
  return 1
end
return 0
`;

const DISPATCH = `
if redis.call("GET", KEYS[1]) ~= ARGV[1] then return -1 end
local due = redis.call("ZRANGEBYSCORE", KEYS[2], "-inf", ARGV[2], "LIMIT", 0, ARGV[3])
if #due == 0 then return 0 end
redis.call("RPUSH", KEYS[3], unpack(due))
redis.call("ZREM", KEYS[2], unpack(due))
return #due
`;

const RESIGN = `
if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end
return 0
`;

/** Any number of replicas run this; only the leader moves due reminders to the outbox. */
export class ReminderScheduler {
  private readonly id = `${hostname()}/${randomUUID()}`;
  private readonly stopping = new AbortController();
  private loop: Promise<void> | undefined;

  constructor(private readonly redis: Redis) {}

  start(): void {
    this.loop ??= this.run();
  }

  async stop(): Promise<void> {
    this.stopping.abort();
    await this.loop;
    await this.redis
      .eval(RESIGN, 1, LEADER_KEY, this.id)
      .catch((err) => console.warn("[reminders] could not resign", err));
  }

  private async run(): Promise<void> {
    const { signal } = this.stopping;
    while (!signal.aborted) {
      try {
        if (await this.campaign()) await this.dispatch();
      } catch (err) {
        console.error("[reminders] tick failed", err);
      }
      await sleep(TICK_MS, undefined, { signal }).catch(() => {});
    }
  }

  private async campaign(): Promise<boolean> {
    return (await this.redis.eval(CAMPAIGN, 1, LEADER_KEY, this.id, LEASE_MS)) === 1;
  }

  private async dispatch(): Promise<void> {
    for (;;) {
      const moved = Number(
        await this.redis.eval(DISPATCH, 3, LEADER_KEY, DUE_KEY, OUTBOX_KEY, this.id, Date.now(), BATCH),
      );
      if (moved < 0) {
        console.info("[reminders] another replica leads now");
        return;
      }
      if (moved > 0) console.info(`[reminders] dispatched ${moved}`);
      if (moved < BATCH) return;
    }
  }
}
