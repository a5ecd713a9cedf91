import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';

const SCRIPT = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const REGIONS = ['eu-west', 'eu-north', 'us-east', 'us-west'] as const;

const nodes = REGIONS.map(
  (region) =>
    new Redis({
      host: `redis-lock.${region}.internal`,
      commandTimeout: 400,
      maxRetriesPerRequest: 1,
    }).on('error', (err) => console.warn(region, err.message)),
);

export interface Handle extends AsyncDisposable {
  readonly token: string;
  readonly signal: AbortSignal;
}

export class RegionLock {
  private readonly quorum = Math.ceil(nodes.length / 2);

  async acquire(resource: string, ttlMs: number): Promise<Handle | null> {
    const token = randomUUID();
    const key = `region-lock:${resource}`;
    const begun = performance.now();

    const replies = await Promise.allSettled(nodes.map((n) => n.set(key, token, 'PX', ttlMs, 'NX')));
    const votes = replies.filter((r) => r.status === 'fulfilled' && r.value === 'OK').length;
    const remaining = ttlMs - (performance.now() - begun) - ttlMs * 0.01 - 2;

    const release = async () => {
      await Promise.allSettled(nodes.map((n) => n.eval(SCRIPT, 1, key, token)));
    };

    if (votes < this.quorum || remaining <= 0) {
      await release();
      return null;
    }
    return {
      token,
      signal: AbortSignal.timeout(Math.floor(remaining)),
      [Symbol.asyncDispose]: release,
    };
  }
}

const locks = new RegionLock();

export async function failOverDns(zone: string, target: string): Promise<boolean> {
  await using handle = await locks.acquire(`dns:${zone}`, 30_000);
  if (!handle) return false;

  const current = await fetch(`${process.env.DNS_API}/zones/${zone}`, { signal: handle.signal });
  if (!current.ok) throw new Error(`dns api: ${current.status}`);
  const { records } = (await current.json()) as { records: { name: string; value: string }[] };

  const next = records.map((r) => (r.name === 'edge' ? { ...r, value: target } : r));
  const res = await fetch(`${process.env.DNS_API}/zones/${zone}`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ records: next }),
    signal: handle.signal,
  });
  if (!res.ok) throw new Error(`dns api: ${res.status}`);
  return true;
}
