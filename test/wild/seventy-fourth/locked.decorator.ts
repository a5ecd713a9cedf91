import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { Redis } from "ioredis";

/** Options of the {@link Locked} decorator. */
export interface LockedOptions<A extends unknown[]> {
  /** Builds the name of the lock from the arguments of the call. */
  key: (...args: A) => string;
  /** Safety net for crashed processes, in seconds. Far above the duration of any call. Default: 120. */
  ttlSeconds?: number;
  /** How long a call waits for its turn, in seconds. Default: 10. */
  waitSeconds?: number;
}

/** Raised when a call did not get its turn in time. */
export class LockTimeoutError extends Error {
  constructor(readonly lockName: string, waitSeconds: number) {
    super(`Lock "${lockName}" was not available within ${waitSeconds}s`);
    this.name = "LockTimeoutError";
  }
}

const RELEASE_IF_OWNER = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

let connection: Redis | undefined;

/** Lazily opens the connection shared by all locked methods. */
function getRedis(): Redis {
  connection ??= new Redis(process.env.REDIS_URL ?? "redis://localhost:6379", { keyPrefix: "locked:" });
  return connection;
}

async function acquire(name: string, ttlSeconds: number, waitSeconds: number): Promise<string> {
  const token = randomUUID();
  const deadline = Date.now() + waitSeconds * 1000;
  for (;;) {
    const reply = await getRedis().set(name, token, "EX", ttlSeconds, "NX");
    if (reply === "OK") return token;
    if (Date.now() > deadline) throw new LockTimeoutError(name, waitSeconds);
    await delay(40 + Math.random() * 80);
  }
}

async function release(name: string, token: string): Promise<void> {
  try {
    await getRedis().eval(RELEASE_IF_OWNER, 1, name, token);
  } catch (error) {
    console.warn(`Lock "${name}" could not be released and will expire`, error);
  }
}

/**
 * Method decorator: calls with the same key run one after the other, across all instances
 * of the service.
 *
 * @example
 * class WalletService {
 *   @Locked<[string, number]>({ key: (walletId) => `wallet:${walletId}` })
 *   async withdraw(walletId: string, cents: number): Promise<void> { ... }
 * }
 */
export function Locked<A extends unknown[]>(options: LockedOptions<A>) {
  const { key, ttlSeconds = 120, waitSeconds = 10 } = options;

  return function <This, R>(
    method: (this: This, ...args: A) => Promise<R>,
    _context: ClassMethodDecoratorContext,
  ) {
    return async function (this: This, ...args: A): Promise<R> {
      const name = key(...args);
      const token = await acquire(name, ttlSeconds, waitSeconds);
      try {
        return method.apply(this, args);
      } finally {
        await release(name, token);
      }
    };
  };
}
