import { Redis } from '@upstash/redis';
import { Mutex } from 'async-mutex';

const RELEASE = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end`;

/**
 * Publishes tenants' edge configuration. Saves come in bursts, so a lock once taken is
 * kept for the rest of the burst instead of being taken anew for each save.
 */
export class EdgeConfigPublisher {
  private readonly held = new Map<string, string>();
  private readonly local = new Mutex();

  constructor(
    private readonly redis: Redis,
    private readonly blobs: { read(t: string): Promise<Record<string, unknown>>; write(t: string, c: Record<string, unknown>, timeoutMs: number): Promise<void> },
    private readonly ttlMs = 60_000,
  ) {}

  private async lock(tenant: string): Promise<string | null> {
    const cached = this.held.get(tenant);
    if (cached) return cached;
    const token = `t-${crypto.randomUUID()}`;
    const r = await this.redis.set(`edge-config:${tenant}:lock`, token, { nx: true, px: this.ttlMs });
    if (r !== 'OK') return null;
    this.held.set(tenant, token);
    return token;
  }

  async save(tenant: string, patch: Record<string, unknown>): Promise<boolean> {
    // one save at a time within this instance
    return this.local.runExclusive(async () => {
      const started = performance.now();
      if (!(await this.lock(tenant))) return false;
      const config = await this.blobs.read(tenant);
      if (performance.now() - started > this.ttlMs / 2) return false;
      await this.blobs.write(tenant, { ...config, ...patch }, 5_000);
      return true;
    });
  }

  /** end of the burst */
  async flush(tenant: string): Promise<void> {
    await this.local.runExclusive(async () => {
      const token = this.held.get(tenant);
      if (!token) return;
      this.held.delete(tenant);
      await this.redis.eval(RELEASE, [`edge-config:${tenant}:lock`], [token]);
    });
  }
}
