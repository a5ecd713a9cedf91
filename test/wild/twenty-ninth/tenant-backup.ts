import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

type Client = ReturnType<typeof createClient>;

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export class AlreadyRunning extends Error {
  constructor(key: string) {
    super(`${key} is already running`);
    this.name = 'AlreadyRunning';
  }
}

interface HasRedis {
  readonly redis: Client;
}

/**
 * Method decorator: one run at a time per name and first argument, across all pods.
 *
 *   @exclusive('backup', 900)
 *   async backup(tenantId: string) { ... }
 */
export function exclusive(name: string, ttlSeconds: number) {
  return function <This extends HasRedis, Args extends [string, ...unknown[]], R>(
    method: (this: This, ...args: Args) => Promise<R>,
    _context: ClassMethodDecoratorContext,
  ) {
    return async function (this: This, ...args: Args): Promise<R> {
      const key = `exclusive:${name}:${args[0]}`;
      const token = randomUUID();

      const reply = await this.redis.set(key, token, { NX: true, EX: ttlSeconds });
      if (reply !== 'OK') throw new AlreadyRunning(key);

      try {
        return method.apply(this, args);
      } finally {
        try {
          await this.redis.eval(UNLOCK, { keys: [key], arguments: [token] });
        } catch (err) {
          console.error(`[exclusive] could not unlock ${key}`, err);
        }
      }
    };
  };
}

export interface Snapshotter {
  dump(tenantId: string, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>>;
}

export interface BackupTarget {
  /** Overwrites tenants/<id>/current.part, then moves it into place. */
  begin(tenantId: string): Promise<void>;
  append(tenantId: string, chunk: Uint8Array): Promise<void>;
  commit(tenantId: string): Promise<void>;
}

export class BackupService implements HasRedis {
  readonly redis: Client;
  readonly #snapshotter: Snapshotter;
  readonly #target: BackupTarget;

  constructor(redis: Client, snapshotter: Snapshotter, target: BackupTarget) {
    this.redis = redis;
    this.#snapshotter = snapshotter;
    this.#target = target;
  }

  @exclusive('backup', 15 * 60)
  async backup(tenantId: string): Promise<number> {
    const signal = AbortSignal.timeout(8 * 60_000);
    let bytes = 0;
    await this.#target.begin(tenantId);
    for await (const chunk of await this.#snapshotter.dump(tenantId, signal)) {
      signal.throwIfAborted();
      await this.#target.append(tenantId, chunk);
      bytes += chunk.byteLength;
    }
    await this.#target.commit(tenantId);
    console.info(`[backup] ${tenantId}: ${bytes} bytes`);
    return bytes;
  }
}
