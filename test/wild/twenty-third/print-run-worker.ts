import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

interface Edition {
  id: string;
  region: string;
  pages: number[];
}

interface PressGateway {
  hasPlate(editionId: string, page: number): Promise<boolean>;
  exposePlate(editionId: string, page: number, pdf: Uint8Array): Promise<void>;
}

interface PageArchive {
  imposed(editionId: string, page: number): Promise<Uint8Array>;
}

interface Logger {
  debug(msg: string, ctx?: object): void;
  info(msg: string, ctx?: object): void;
  error(msg: string, ctx?: object): void;
}

const TTL_MS = 30_000;

const EXTEND = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

export class PrintRunWorker {
  private readonly redis: Redis;
  private readonly press: PressGateway;
  private readonly archive: PageArchive;
  private readonly log: Logger;

  constructor(redis: Redis, press: PressGateway, archive: PageArchive, log: Logger) {
    this.redis = redis;
    this.press = press;
    this.archive = archive;
    this.log = log;
  }

  /**
   * Exposes the plates of an edition. A run takes three to ten minutes, so the lock
   * is short and is kept alive while the run goes on; a worker that dies frees the
   * edition within half a minute and the next one continues with the missing plates.
   */
  async process(edition: Edition): Promise<'done' | 'busy'> {
    const key = `print-run:${edition.region}:${edition.id}`;
    const token = randomUUID();

    const askedAt = performance.now();
    const reply = await this.redis.set(key, token, 'PX', TTL_MS, 'NX');
    if (reply !== 'OK') return 'busy';
    if (performance.now() - askedAt > TTL_MS / 2) {
      await this.release(key, token);
      return 'busy';
    }

    const heartbeat = this.startHeartbeat(key, token);
    try {
      for (const page of edition.pages) {
        // A plate costs aluminium and press time: never burn one twice.
        if (await this.press.hasPlate(edition.id, page)) continue;
        const pdf = await this.archive.imposed(edition.id, page);
        await this.press.exposePlate(edition.id, page, pdf);
        this.log.info('plate exposed', { edition: edition.id, page });
      }
      return 'done';
    } finally {
      clearInterval(heartbeat);
      await this.release(key, token);
    }
  }

  /** Pushes the expiry forward three times per TTL, so that two beats may go missing. */
  private startHeartbeat(key: string, token: string): NodeJS.Timeout {
    return setInterval(() => {
      this.redis
        .eval(EXTEND, 1, key, token, TTL_MS)
        .then(() => this.log.debug('print run lock extended', { key }))
        .catch((err: unknown) => this.log.error('print run heartbeat failed', { key, err }));
    }, TTL_MS / 3);
  }

  private async release(key: string, token: string): Promise<void> {
    try {
      await this.redis.eval(RELEASE, 1, key, token);
    } catch (err) {
      this.log.error('print run lock not released, it will expire', { key, err });
    }
  }
}
