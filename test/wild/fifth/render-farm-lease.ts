import { createClient } from 'redis';
import { randomUUID } from 'node:crypto';

type Node = ReturnType<typeof createClient>;

const EXTEND = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;

const DROP = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export interface FarmOptions {
  urls: string[]; // independent instances, odd number
  ttlMs: number;
  nodeTimeoutMs?: number;
}

export async function connectFarm({ urls, ttlMs, nodeTimeoutMs = 200 }: FarmOptions) {
  const nodes: Node[] = urls.map((url) => createClient({ url, disableOfflineQueue: true }) as Node);
  for (const n of nodes) {
    n.on('error', (err: Error) => console.debug('farm node:', err.message));
    n.connect().catch(() => undefined);
  }
  const quorum = (nodes.length >> 1) + 1;
  const drift = ttlMs * 0.01 + 2;

  const limited = <T>(p: Promise<T>): Promise<T> =>
    Promise.race([
      p,
      new Promise<never>((_, reject) => setTimeout(reject, nodeTimeoutMs, new Error('node too slow')).unref()),
    ]);

  const lock = (n: Node, key: string, token: string) =>
    limited(n.set(key, token, { condition: 'NX', expiration: { type: 'PX', value: ttlMs } })).then(
      (r) => r === 'OK',
      () => false,
    );
  const drop = (n: Node, key: string, token: string) => limited(n.eval(DROP, { keys: [key], arguments: [token] }));

  async function prolong(n: Node, key: string, token: string): Promise<void> {
    const r = await limited(n.eval(EXTEND, { keys: [key], arguments: [token, String(ttlMs)] }));
    if (r !== 1) throw new Error(`${key} not held here`);
  }

  return {
    async lease(frame: string) {
      const key = `render:${frame}`;
      const token = randomUUID();
      let from = performance.now();
      const votes = (await Promise.all(nodes.map((n) => lock(n, key, token)))).filter(Boolean).length;
      if (votes < quorum || performance.now() - from >= ttlMs - drift) {
        await Promise.allSettled(nodes.map((n) => drop(n, key, token)));
        return null;
      }

      return {
        get msLeft() {
          return from + ttlMs - drift - performance.now();
        },
        async extend(): Promise<boolean> {
          const asked = performance.now();
          try {
            await Promise.any(nodes.map((n) => prolong(n, key, token)));
          } catch {
            return false;
          }
          if (performance.now() - asked >= ttlMs - drift) return false;
          from = asked;
          return true;
        },
        async release() {
          await Promise.allSettled(nodes.map((n) => drop(n, key, token)));
        },
      };
    },
  };
}

const TILE_MS = 4_000; // hard limit of the renderer for a tile, it kills itself after that

export async function renderFrame(
  farm: Awaited<ReturnType<typeof connectFarm>>,
  frame: string,
  tiles: number,
  renderTile: (frame: string, tile: number, limitMs: number) => Promise<void>,
) {
  const lease = await farm.lease(frame);
  if (!lease) return false;
  try {
    for (let t = 0; t < tiles; t++) {
      if (lease.msLeft < TILE_MS * 2) await lease.extend();
      if (lease.msLeft < TILE_MS + 500) throw new Error(`lost frame ${frame} at tile ${t}`);
      await renderTile(frame, t, TILE_MS);
    }
    return true;
  } finally {
    await lease.release();
  }
}
