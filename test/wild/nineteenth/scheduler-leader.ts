import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import Valkey from "iovalkey";

const RENEW = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0`;
const RESIGN = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

export type Lead = (signal: AbortSignal) => Promise<void>;

export class SchedulerLeader {
  private readonly ttlMs = 12_000;
  private readonly marginMs = 500;

  constructor(
    private readonly db = new Valkey(process.env.VALKEY_URL!, { commandTimeout: 2_000, maxRetriesPerRequest: 1 }),
    private readonly key = "scheduler:leader",
  ) {
    db.on("error", (err: Error) => console.warn("valkey:", err.message));
  }

  /** Campaigns until `stop` fires. `lead` runs while we hold the seat and has to end when its signal fires. */
  async run(lead: Lead, stop: AbortSignal): Promise<void> {
    while (!stop.aborted) {
      const token = `${hostname()}:${randomUUID()}`; // one per term
      const askedAt = performance.now();
      const won = await this.db
        .set(this.key, token, "PX", this.ttlMs, "NX")
        .then((r) => r === "OK", () => false);
      const deadline = askedAt + this.ttlMs - this.marginMs;
      if (won && performance.now() < deadline) await this.term(token, deadline, lead, stop);
      // also after a lost election: a repeated or timed-out SET can have left our token behind
      await this.resign(token);
      await sleep(1_000 + Math.random() * 2_000, undefined, { signal: stop }).catch(() => {});
    }
  }

  private async term(token: string, firstDeadline: number, lead: Lead, stop: AbortSignal): Promise<void> {
    const abort = new AbortController();
    let over = false;
    const step = (why: string) => abort.abort(new Error(why));
    const onStop = () => step("shutting down");
    stop.addEventListener("abort", onStop, { once: true });
    if (stop.aborted) onStop();

    const arm = (deadline: number) =>
      setTimeout(() => step("lease ran out"), Math.max(0, deadline - performance.now()));
    let fuse = arm(firstDeadline);

    const beat = setInterval(async () => {
      const sentAt = performance.now();
      try {
        const kept = await this.db.eval(RENEW, 1, this.key, token, this.ttlMs);
        if (over || abort.signal.aborted) return;
        if (kept !== 1) return step("seat was lost");
        clearTimeout(fuse);
        fuse = arm(sentAt + this.ttlMs - this.marginMs);
      } catch (err) {
        console.warn("renewal failed, the fuse is burning:", (err as Error).message);
      }
    }, this.ttlMs / 4);

    // no more renewals once we are told to go
    abort.signal.addEventListener("abort", () => clearInterval(beat), { once: true });
    if (abort.signal.aborted) clearInterval(beat);

    try {
      if (!abort.signal.aborted) await lead(abort.signal);
    } catch (err) {
      console.error("term ended:", err);
    } finally {
      over = true;
      clearInterval(beat);
      clearTimeout(fuse);
      stop.removeEventListener("abort", onStop);
    }
  }

  private async resign(token: string): Promise<void> {
    await this.db.eval(RESIGN, 1, this.key, token).catch(() => {});
  }
}
