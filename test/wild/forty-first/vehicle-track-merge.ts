import { Injectable, Logger } from '@nestjs/common';
import { PrismaClient } from '@prisma/client';
import { createClient } from 'redis';
import { randomUUID } from 'node:crypto';

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => Logger.error(err.message, 'Redis'));
redis.connect().catch((err) => Logger.error(err.message, 'Redis'));

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

/**
 * Only one call per key across all pods. Calls that do not get the lock are skipped
 * and resolve to undefined.
 */
export function Locked(makeKey: (...args: any[]) => string, ttlMs = 60_000): MethodDecorator {
  return (_target, name, descriptor: PropertyDescriptor) => {
    const original = descriptor.value;

    descriptor.value = async function (...args: any[]) {
      const key = `lock:${String(name)}:${makeKey(...args)}`;
      const token = randomUUID();

      const ok = await redis.set(key, token, { NX: true, PX: ttlMs });
      if (ok !== 'OK') {
        Logger.debug(`${key} busy, skipping`, 'Locked');
        return undefined;
      }

      try {
        return original.apply(this, args);
      } finally {
        await redis.eval(RELEASE, { keys: [key], arguments: [token] });
      }
    };

    return descriptor;
  };
}

function metres(a: { lat: number; lng: number }, b: { lat: number; lng: number }): number {
  const rad = Math.PI / 180;
  const x = (b.lng - a.lng) * rad * Math.cos(((a.lat + b.lat) / 2) * rad);
  const y = (b.lat - a.lat) * rad;
  return Math.sqrt(x * x + y * y) * 6_371_000;
}

@Injectable()
export class TrackMergeService {
  constructor(private readonly prisma: PrismaClient) {}

  // called by the MQTT handler on every 50th point and by the cron
  @Locked((tripId: string) => tripId)
  async mergePoints(tripId: string) {
    const trip = await this.prisma.trip.findUniqueOrThrow({ where: { id: tripId } });
    const points = await this.prisma.rawPoint.findMany({
      where: { tripId },
      orderBy: { recordedAt: 'asc' },
      take: 500,
    });
    if (points.length < 2) return trip.distanceM;

    let extra = 0;
    for (let i = 1; i < points.length; i++) extra += metres(points[i - 1], points[i]);

    // keep the last one, the next batch starts from there
    const ids = points.slice(0, -1).map((p) => p.id);
    await this.prisma.$transaction([
      this.prisma.trip.update({ where: { id: tripId }, data: { distanceM: { increment: extra } } }),
      this.prisma.rawPoint.deleteMany({ where: { id: { in: ids } } }),
    ]);
    return trip.distanceM + extra;
  }
}
