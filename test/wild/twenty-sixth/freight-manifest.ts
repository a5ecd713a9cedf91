import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

const RELEASE = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`;
const RENEW = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) end return 0`;

const TTL_MS = 30_000;
const WAIT_MS = 8_000;

export interface Manifest {
  id: string;
  status: 'open' | 'closed';
  parcelIds: string[];
}

export interface ManifestDeps {
  redis: Redis;
  manifests: {
    load(id: string): Promise<Manifest>;
    markClosed(id: string, totalKg: number, at: Date): Promise<void>;
  };
  weighbridge: { weigh(parcelId: string): Promise<number> };
  logger: { info(o: object, msg: string): void; warn(o: object, msg: string): void };
  now?: () => number;
}

export class ManifestBusyError extends Error {
  constructor(readonly manifestId: string) {
    super(`manifest ${manifestId} is being closed by someone else`);
  }
}

export class ManifestCloser {
  private readonly now: () => number;

  constructor(private readonly deps: ManifestDeps) {
    this.now = deps.now ?? (() => performance.now());
  }

  async close(manifestId: string): Promise<'closed' | 'already-closed'> {
    const { redis, manifests, weighbridge, logger } = this.deps;
    const key = `freight:manifest:${manifestId}:closing`;
    const token = randomUUID();

    let validUntil = await this.acquire(key, token);
    if (validUntil === undefined) throw new ManifestBusyError(manifestId);

    let lost = false;
    const beat = setInterval(async () => {
      const sentAt = this.now();
      try {
        const kept = await redis.eval(RENEW, 1, key, token, TTL_MS);
        if (kept === 1) validUntil = Math.max(validUntil!, sentAt + TTL_MS);
        else lost = true;
      } catch (err) {
        logger.warn({ err, manifestId }, 'lock renewal failed, next beat retries');
      }
    }, TTL_MS / 3);

    const assertHeld = () => {
      if (lost || this.now() >= validUntil!) throw new Error(`lock on manifest ${manifestId} lost`);
    };

    try {
      const manifest = await manifests.load(manifestId);
      if (manifest.status === 'closed') return 'already-closed';

      let totalKg = 0;
      for (const parcelId of manifest.parcelIds) {
        // the weighbridge is slow; a full trailer takes a couple of minutes
        totalKg += await weighbridge.weigh(parcelId);
        assertHeld();
      }
      assertHeld();
      await manifests.markClosed(manifestId, totalKg, new Date());
      logger.info({ manifestId, totalKg }, 'manifest closed');
      return 'closed';
    } finally {
      clearInterval(beat);
      await redis.eval(RELEASE, 1, key, token).catch((err) => {
        logger.warn({ err, manifestId }, 'could not release lock, it will expire');
      });
    }
  }

  private async acquire(key: string, token: string): Promise<number | undefined> {
    const giveUpAt = this.now() + WAIT_MS;
    do {
      const sentAt = this.now();
      const reply = await this.deps.redis.set(key, token, 'PX', TTL_MS, 'NX');
      if (reply === 'OK') return sentAt + TTL_MS;
      await sleep(150 + Math.random() * 150);
    } while (this.now() < giveUpAt);
    return undefined;
  }
}
