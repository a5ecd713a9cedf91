import { randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { ReadableStream } from 'node:stream/web';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';

// Five independent masters in three zones, no replication between them.
const nodes = (process.env.LOCK_NODES ?? '')
  .split(',')
  .filter(Boolean)
  .map((url) => {
    const node = new Redis(url, {
      commandTimeout: 300,
      maxRetriesPerRequest: 1,
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
    });
    node.on('error', (err) => console.warn('lock node %s: %s', url, err.message));
    return node;
  });

const QUORUM = Math.floor(nodes.length / 2) + 1;
const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

class QuorumLease implements AsyncDisposable {
  private constructor(
    private readonly key: string,
    readonly token: string,
    readonly signal: AbortSignal,
  ) {}

  static async acquire(name: string, ttlMs: number, tries = 10): Promise<QuorumLease> {
    const key = `lease:${name}`;
    const drift = Math.ceil(ttlMs * 0.01) + 2;
    for (let i = 0; i < tries; i++) {
      const token = randomUUID();
      const t0 = performance.now();
      const answers = await Promise.allSettled(nodes.map((n) => n.set(key, token, 'PX', ttlMs, 'NX')));
      const votes = answers.filter((a) => a.status === 'fulfilled' && a.value === 'OK').length;
      const validity = Math.floor(ttlMs - (performance.now() - t0) - drift);
      if (votes >= QUORUM && validity > 0) {
        return new QuorumLease(key, token, AbortSignal.timeout(validity));
      }
      await QuorumLease.drop(key, token);
      await sleep(150 + Math.random() * 350);
    }
    throw new Error(`no quorum for ${name}`);
  }

  private static async drop(key: string, token: string): Promise<void> {
    await Promise.allSettled(nodes.map((n) => n.eval(RELEASE, 1, key, token)));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await QuorumLease.drop(this.key, this.token);
  }
}

/** Brings one forecast grid to the shared volume; a run is never altered once it is published. */
export async function importGrid(model: string, run: string, step: number): Promise<string> {
  await using lease = await QuorumLease.acquire(`grid:${model}:${run}:${step}`, 120_000);

  const target = `/srv/grids/${model}/${run}/${String(step).padStart(3, '0')}.grib2`;
  await mkdir(dirname(target), { recursive: true });
  const part = `${target}.${lease.token}.part`;
  try {
    const res = await fetch(`${process.env.MET_URL}/${model}/${run}/${step}.grib2`, { signal: lease.signal });
    if (!res.ok || !res.body) throw new Error(`grid download: ${res.status}`);
    await pipeline(Readable.fromWeb(res.body as ReadableStream), createWriteStream(part), { signal: lease.signal });
    lease.signal.throwIfAborted();
    await rename(part, target);
    return target;
  } catch (err) {
    await rm(part, { force: true });
    throw err;
  }
}
