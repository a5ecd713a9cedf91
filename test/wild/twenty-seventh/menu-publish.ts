import Redis from 'ioredis';
import Redlock, { ExecutionError, ResourceLockedError } from 'redlock5';

export type Menu = { items: { sku: string; price: number }[] };

export interface MenuRepo {
  draft(restaurantId: string): Promise<Menu>;
  liveVersion(restaurantId: string): Promise<number>;
  markLive(restaurantId: string, version: number, menu: Menu): Promise<void>;
}

export interface Channel {
  name: string;
  /** replaces whatever the platform shows at the moment */
  push(restaurantId: string, version: number, menu: Menu, signal: AbortSignal): Promise<void>;
}

export class MenuBusy extends Error {
  constructor(restaurantId: string) {
    super(`menu of ${restaurantId} is being published already`);
    this.name = 'MenuBusy';
  }
}

type Settings = { redisUrl?: string; leaseMs?: number; onError?: (e: unknown) => void };

export function createMenuPublisher(repo: MenuRepo, channels: Channel[], settings: Settings = {}) {
  const { redisUrl = process.env.REDIS_URL ?? 'redis://localhost', leaseMs = 10_000 } = settings;
  const onError = settings.onError ?? console.error;

  const connection = new Redis(redisUrl);
  const redlock = new Redlock([connection], {
    retryCount: 15,
    retryDelay: 200,
    retryJitter: 100,
    automaticExtensionThreshold: 3_000,
  });
  redlock.on('error', (e: unknown) => {
    if (e instanceof ResourceLockedError) return; // normal, somebody else publishes
    onError(e);
  });

  async function publish(restaurantId: string): Promise<number> {
    let entered = false;
    try {
      // delivery platforms can take half a minute to answer; `using` extends for as long as we run
      return await redlock.using([`menu:publish:${restaurantId}`], leaseMs, async (signal) => {
        entered = true;
        const menu = await repo.draft(restaurantId);
        const version = (await repo.liveVersion(restaurantId)) + 1;

        for (const channel of channels) {
          if (signal.aborted) throw signal.error;
          await channel.push(restaurantId, version, menu, signal);
        }

        if (signal.aborted) throw signal.error;
        await repo.markLive(restaurantId, version, menu);
        return version;
      });
    } catch (e) {
      if (e instanceof ExecutionError && !entered) throw new MenuBusy(restaurantId);
      throw e;
    }
  }

  return { publish, close: () => connection.quit() };
}
