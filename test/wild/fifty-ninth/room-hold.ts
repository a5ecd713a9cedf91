import { Hono } from 'hono';
import { HTTPException } from 'hono/http-exception';
import { hostname } from 'node:os';
import { createClient } from 'redis';
import { z } from 'zod';
import { rooms } from './repositories/rooms';
import { pms } from './pms-client';
import { logger } from './logger';

type RedisClient = ReturnType<typeof createClient>;

const ACQUIRE = `
local owner = redis.call('GET', KEYS[1])
if not owner then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
if owner == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
return 0`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

/**
 * Lock on a room. Re-entrant: `moveGuest` takes it and calls `holdRoom`, which takes it again,
 * so the current owner is let through and only its lease is extended.
 */
export class RoomLock {
  private readonly ownerId = `${hostname()}#${process.pid}`;

  constructor(private readonly redis: RedisClient, private readonly ttlMs = 25_000) {}

  private key(hotel: string, room: string) {
    return `room-lock:${hotel}:${room}`;
  }

  async acquire(hotel: string, room: string): Promise<boolean> {
    const res = await this.redis.eval(ACQUIRE, {
      keys: [this.key(hotel, room)],
      arguments: [this.ownerId, String(this.ttlMs)],
    });
    return res === 1;
  }

  async release(hotel: string, room: string): Promise<void> {
    try {
      await this.redis.eval(RELEASE, { keys: [this.key(hotel, room)], arguments: [this.ownerId] });
    } catch (err) {
      logger.warn({ err, hotel, room }, 'room lock not released');
    }
  }
}

const HoldRequest = z.object({
  from: z.coerce.date(),
  to: z.coerce.date(),
  guestId: z.string().uuid(),
});

export function roomRoutes(redis: RedisClient) {
  const lock = new RoomLock(redis);
  const app = new Hono();

  app.post('/hotels/:hotel/rooms/:room/holds', async (c) => {
    const { hotel, room } = c.req.param();
    const body = HoldRequest.parse(await c.req.json());

    if (!(await lock.acquire(hotel, room))) {
      throw new HTTPException(409, { message: 'room is being edited' });
    }
    try {
      const signal = AbortSignal.timeout(12_000);
      const taken = await rooms.overlapping(hotel, room, body.from, body.to, { signal });
      if (taken.length > 0) return c.json({ error: 'not available', until: taken[0].to }, 409);

      const blocked = await pms.isOutOfOrder(hotel, room, body.from, { signal });
      if (blocked) return c.json({ error: 'out of order' }, 409);

      const hold = await rooms.insertHold({ hotel, room, ...body }, { signal });
      logger.info({ hotel, room, hold: hold.id }, 'room held');
      return c.json({ id: hold.id }, 201);
    } finally {
      await lock.release(hotel, room);
    }
  });

  return app;
}
