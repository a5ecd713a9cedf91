import { Redis } from '@upstash/redis';

const UNLOCK = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0
`;

const EXTEND = `
local owner = redis.call("GET", KEYS[1])
if owner == false or owner == ARGV[1] then
  redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2])
  return 1
end
return 0
`;

export interface RenderLeaseOptions {
  redis?: Redis;
  ttlMs?: number;
}

/**
 * Lease of a scene. The render node extends it after each frame, and stops when it can not.
 */
export class RenderLease {
  private readonly redis: Redis;
  private readonly key: string;
  private readonly ttlMs: number;
  private token: string | null = null;

  constructor(sceneId: string, options: RenderLeaseOptions = {}) {
    this.redis = options.redis ?? Redis.fromEnv();
    this.ttlMs = options.ttlMs ?? 20_000;
    this.key = `render:scene:${sceneId}`;
  }

  async acquire(): Promise<boolean> {
    const token = crypto.randomUUID();
    const res = await this.redis.set(this.key, token, { nx: true, px: this.ttlMs });
    if (res !== 'OK') return false;
    this.token = token;
    return true;
  }

  async extend(): Promise<boolean> {
    if (!this.token) return false;
    const ok = await this.redis.eval(EXTEND, [this.key], [this.token, String(this.ttlMs)]);
    if (ok !== 1) this.token = null;
    return ok === 1;
  }

  async release(): Promise<void> {
    if (!this.token) return;
    const token = this.token;
    this.token = null;
    await this.redis.eval(UNLOCK, [this.key], [token]);
  }
}

export async function renderScene(
  sceneId: string,
  frames: number,
  renderFrame: (frame: number) => Promise<void>,
): Promise<number> {
  const lease = new RenderLease(sceneId);
  if (!(await lease.acquire())) return 0;
  let frame = 0;
  try {
    while (frame < frames) {
      await renderFrame(frame++);
      if (!(await lease.extend())) break;
    }
  } finally {
    await lease.release();
  }
  return frame;
}
