import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import { logger } from './logger';
import { ShelfRepository } from './shelf.repository';

const TTL_MS = 20_000;
const NODE_TIMEOUT_MS = 200;

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
else
  return 0
end`;

// One independent Redis in each of the four cellars.
const CELLARS = ['comte', 'beaufort', 'reblochon', 'abondance'];

export function cellarNodes(): Redis[] {
  return CELLARS.map((name) => {
    const node = new Redis({
      host: `redis.${name}.cellar.internal`,
      commandTimeout: NODE_TIMEOUT_MS,
      maxRetriesPerRequest: 0,
      enableOfflineQueue: false,
    });
    node.on('error', (err) => logger.debug({ name, err: err.message }, 'cellar redis'));
    return node;
  });
}

export class CaveLock {
  private readonly needed: number;

  constructor(private readonly nodes: Redis[]) {
    this.needed = Math.ceil(nodes.length / 2);
  }

  async acquire(resource: string): Promise<{ token: string; validMs: number } | null> {
    const token = randomBytes(20).toString('hex');
    for (let attempt = 0; attempt < 6; attempt++) {
      const start = performance.now();
      const replies = await Promise.allSettled(
        this.nodes.map((n) => n.set(resource, token, 'PX', TTL_MS, 'NX')),
      );
      const granted = replies.filter((r) => r.status === 'fulfilled' && r.value === 'OK').length;
      const validMs = TTL_MS - (performance.now() - start) - (TTL_MS * 0.01 + 2);
      if (granted >= this.needed && validMs > 0) return { token, validMs };
      await this.release(resource, token);
      await sleep(100 + Math.random() * 400);
    }
    return null;
  }

  async release(resource: string, token: string): Promise<void> {
    await Promise.allSettled(this.nodes.map((n) => n.eval(UNLOCK, 1, resource, token)));
  }
}

export class WheelMover {
  constructor(private readonly lock: CaveLock, private readonly shelves: ShelfRepository) {}

  /** Only one robot at a time may plan into a shelf; wheels must never be stacked twice on a board. */
  async move(wheelId: string, toShelf: string): Promise<'moved' | 'full' | 'busy'> {
    const resource = `shelf:${toShelf}`;
    const held = await this.lock.acquire(resource);
    if (!held) return 'busy';
    const signal = AbortSignal.timeout(Math.max(1, Math.floor(held.validMs - 5_000)));
    try {
      const shelf = await this.shelves.load(toShelf, { signal });
      const board = shelf.boards.find((b) => b.wheelId === null && !b.resting);
      if (!board) return 'full';
      signal.throwIfAborted();
      await this.shelves.place(toShelf, board.number, wheelId, { signal });
      logger.info({ wheelId, toShelf, board: board.number }, 'wheel placed');
      return 'moved';
    } finally {
      await this.lock.release(resource, held.token);
    }
  }
}
