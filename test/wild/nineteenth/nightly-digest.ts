import { randomUUID } from "node:crypto";
import { performance } from "node:perf_hooks";
import { Redis } from "@upstash/redis";

const redis = Redis.fromEnv();

// The REST client repeats a request after a network failure, so each script gives the
// same answer when it is run twice with the same token.
const CLAIM = `
if redis.call('EXISTS', KEYS[2]) == 1 then return 2 end
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`;

const FINISH = `
if redis.call('GET', KEYS[2]) == ARGV[1] then return 1 end
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[1], 'EX', ARGV[2])
redis.call('DEL', KEYS[1])
return 1`;

const ABANDON = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

const LEASE_MS = 4 * 60_000;
const MARGIN_MS = 2_000;
const REMEMBER_S = 3 * 24 * 3600;

export interface DigestMailer {
  pending(day: string, signal: AbortSignal): Promise<string[]>;
  /** The provider drops a second mail with the same dedupe id. */
  send(recipient: string, dedupeId: string, signal: AbortSignal): Promise<void>;
}

/** Called by the platform's cron in every region; each day's digest is sent by one of them. */
export async function nightlyDigest(mailer: DigestMailer, now = new Date()): Promise<"sent" | "busy" | "already"> {
  const day = now.toISOString().slice(0, 10);
  const keys = [`{digest:${day}}:lock`, `{digest:${day}}:done`];
  const token = randomUUID();

  const askedAt = performance.now();
  let claim: number;
  try {
    claim = Number(await redis.eval(CLAIM, keys, [token, String(LEASE_MS)]));
  } catch (err) {
    await redis.eval(ABANDON, [keys[0]], [token]).catch(() => {});
    throw err;
  }
  if (claim === 2) return "already";
  if (claim !== 1) return "busy";

  try {
    const left = Math.floor(askedAt + LEASE_MS - MARGIN_MS - performance.now());
    if (left <= 0) throw new Error("claim answered too late");
    const signal = AbortSignal.timeout(left);
    for (const recipient of await mailer.pending(day, signal)) {
      signal.throwIfAborted();
      await mailer.send(recipient, `digest-${day}-${recipient}`, signal);
    }
    signal.throwIfAborted();
    const kept = Number(await redis.eval(FINISH, keys, [token, String(REMEMBER_S)]));
    if (kept !== 1) throw new Error(`digest ${day}: lease was lost before the end`);
    return "sent";
  } catch (err) {
    // leaves the day open, the next cron tick starts over with what is pending
    await redis.eval(ABANDON, [keys[0]], [token]).catch(() => {});
    throw err;
  }
}
