import { randomBytes } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import Redis from 'ioredis';

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`;

export interface SampleLease {
  key: string;
  token: string;
  validForMs: number;
}

/** Lock spread over independent Redis nodes, e.g. LOCK_NODES=redis://a:6379,redis://b:6379,... */
export class SampleLock {
  private readonly nodes: Redis[];

  constructor(urls = (process.env.LOCK_NODES ?? '').split(',').filter(Boolean), private readonly ttlMs = 12_000) {
    if (urls.length < 3) throw new Error('LOCK_NODES must name at least three nodes');
    this.nodes = urls.map((url) => {
      const node = new Redis(url, {
        commandTimeout: 250,
        connectTimeout: 500,
        maxRetriesPerRequest: 0,
        enableOfflineQueue: false,
      });
      node.on('error', (err) => console.warn('lock node', url, err.message));
      return node;
    });
  }

  async acquire(sampleId: string): Promise<SampleLease | null> {
    const key = `sample:${sampleId}:lock`;
    const token = randomBytes(20).toString('hex');
    const startedAt = performance.now();

    const replies = await Promise.allSettled(
      this.nodes.map((node) => node.set(key, token, 'PX', this.ttlMs, 'NX')),
    );
    const answered = replies.flatMap((r) => (r.status === 'fulfilled' ? [r.value] : []));
    const granted = answered.filter((value) => value === 'OK').length;
    const quorum = Math.floor(answered.length / 2) + 1;

    const drift = Math.ceil(this.ttlMs * 0.01) + 2;
    const validForMs = this.ttlMs - (performance.now() - startedAt) - drift;

    if (granted >= quorum && validForMs > 0) {
      return { key, token, validForMs };
    }
    await this.release({ key, token });
    return null;
  }

  async release(lease: Pick<SampleLease, 'key' | 'token'>): Promise<void> {
    await Promise.allSettled(this.nodes.map((node) => node.eval(RELEASE, 1, lease.key, lease.token)));
  }
}

export interface SampleStore {
  volumeUl(sampleId: string, signal: AbortSignal): Promise<number>;
  writeAliquot(sampleId: string, tubeId: string, volumeUl: number, leftUl: number, signal: AbortSignal): Promise<void>;
}

/** Takes an aliquot from a sample; never more than is left in the tube. */
export async function takeAliquot(
  lock: SampleLock,
  store: SampleStore,
  sampleId: string,
  tubeId: string,
  volumeUl: number,
): Promise<'done' | 'busy' | 'not-enough'> {
  const lease = await lock.acquire(sampleId);
  if (!lease) return 'busy';

  const signal = AbortSignal.timeout(Math.floor(lease.validForMs * 0.7));
  try {
    const left = await store.volumeUl(sampleId, signal);
    if (left < volumeUl) return 'not-enough';
    signal.throwIfAborted();
    await store.writeAliquot(sampleId, tubeId, volumeUl, left - volumeUl, signal);
    return 'done';
  } finally {
    await lock.release(lease);
  }
}
