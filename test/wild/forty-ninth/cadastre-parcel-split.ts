import { DataSource } from 'typeorm';
import Redis from 'ioredis';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Parcel } from './entities/parcel.entity';
import { Deed } from './entities/deed.entity';
import { splitPolygon, type LineString } from '../geometry';
import { logger } from '../logger';

const LOCK_MS = 60_000;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class ParcelBusyError extends Error {}

interface SplitRequest {
  parcelId: string;
  cut: LineString;
  notary: string;
  deedNumber: string;
}

export class ParcelSplitter {
  constructor(
    private readonly dataSource: DataSource,
    private readonly redis: Redis,
  ) {}

  private async acquire(key: string, waitMs = 4_000): Promise<string> {
    const token = randomUUID();
    const giveUpAt = Date.now() + waitMs;
    for (;;) {
      if ((await this.redis.set(key, token, 'PX', LOCK_MS, 'NX')) === 'OK') return token;
      if (Date.now() >= giveUpAt) throw new ParcelBusyError(key);
      await sleep(100 + Math.random() * 150);
    }
  }

  private async release(key: string, token: string): Promise<void> {
    try {
      await this.redis.eval(RELEASE, 1, key, token);
    } catch (err) {
      logger.warn({ err, key }, 'parcel lock left to expire');
    }
  }

  async split({ parcelId, cut, notary, deedNumber }: SplitRequest): Promise<Parcel[]> {
    const key = `cadastre:parcel:${parcelId}`;

    return this.dataSource.transaction(async (em) => {
      await em.query(`SET LOCAL statement_timeout = '10s'`);
      const token = await this.acquire(key);
      try {
        const parent = await em.findOneByOrFail(Parcel, { id: parcelId });
        if (parent.retired) throw new Error(`parcel ${parent.number} is retired`);

        const [left, right] = splitPolygon(parent.outline, cut);
        const children = [left, right].map((outline, i) =>
          em.create(Parcel, {
            number: `${parent.section}/${parent.nextSuffix + i}`,
            section: parent.section,
            outline,
            parentId: parent.id,
            ownerId: parent.ownerId,
            nextSuffix: 1,
          }),
        );
        await em.save(children);

        parent.nextSuffix += children.length;
        parent.retired = true;
        await em.save(parent);

        await em.insert(Deed, {
          number: deedNumber,
          notary,
          kind: 'SPLIT',
          parcelId: parent.id,
          recordedAt: new Date(),
        });
        return children;
      } finally {
        await this.release(key, token);
      }
    });
  }
}
