import { randomUUID } from "crypto";
import { hostname } from "os";
import type { Redis } from "ioredis";

// unique per process, survives nothing
const INSTANCE_ID = `${hostname()}-${randomUUID()}`;

const RELEASE_SCRIPT = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  else
    return 0
  end
`;

export class LockService {
  constructor(
    private readonly redis: Redis,
    private readonly ttlMs = 10_000,
  ) {}

  async tryLock(name: string): Promise<boolean> {
    const res = await this.redis.set(`lock:${name}`, INSTANCE_ID, "PX", this.ttlMs, "NX");
    return res === "OK";
  }

  async unlock(name: string): Promise<boolean> {
    const n = await this.redis.eval(RELEASE_SCRIPT, 1, `lock:${name}`, INSTANCE_ID);
    return n === 1;
  }

  async run<T>(name: string, task: () => Promise<T>): Promise<T | undefined> {
    if (!(await this.tryLock(name))) return undefined;
    try {
      return await task();
    } finally {
      await this.unlock(name);
    }
  }
}
