import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { ConflictException, Injectable, Logger, ServiceUnavailableException } from '@nestjs/common';
import Redis from 'ioredis';
import { DataSource, EntityManager } from 'typeorm';

interface Infra {
  dataSource: DataSource;
  redis: Redis;
}

const currentManager = new AsyncLocalStorage<EntityManager>();
const UNLOCK = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;
const TTL_MS = 30_000;
const WAIT_MS = 4_000;

/** Runs the method in a transaction; repositories pick the manager up from the store. */
function Transactional(): MethodDecorator {
  return (_target, _name, descriptor: PropertyDescriptor) => {
    const inner = descriptor.value;
    descriptor.value = function (this: Infra, ...args: unknown[]) {
      return this.dataSource.transaction((em) => currentManager.run(em, () => inner.apply(this, args)));
    };
  };
}

/** Serialises the method over all instances by the key made from its arguments. */
function Locked(makeKey: (...args: any[]) => string): MethodDecorator {
  return (_target, name, descriptor: PropertyDescriptor) => {
    const inner = descriptor.value;
    const log = new Logger(`Locked:${String(name)}`);
    descriptor.value = async function (this: Infra, ...args: unknown[]) {
      const key = `lock:${makeKey(...args)}`;
      const token = randomUUID();
      const until = Date.now() + WAIT_MS;
      while ((await this.redis.set(key, token, 'PX', TTL_MS, 'NX')) !== 'OK') {
        if (Date.now() > until) throw new ServiceUnavailableException(`${key} busy`);
        await sleep(50 + Math.random() * 50);
      }
      try {
        return await inner.apply(this, args);
      } finally {
        await this.redis.eval(UNLOCK, 1, key, token).catch((e: Error) => log.warn(`unlock ${key}: ${e.message}`));
      }
    };
  };
}

export interface Slot {
  roomId: string;
  from: Date;
  to: Date;
}

@Injectable()
export class RoomBookingService implements Infra {
  private readonly log = new Logger(RoomBookingService.name);

  // statement_timeout (2 s) and the pool's connection timeout (3 s) come with the DataSource.
  constructor(readonly dataSource: DataSource, readonly redis: Redis) {}

  async list(roomId: string, day: string) {
    return this.dataSource.query(
      'SELECT id, starts_at, ends_at FROM bookings WHERE room_id = $1 AND starts_at::date = $2 ORDER BY 2',
      [roomId, day],
    );
  }

  @Transactional()
  @Locked((slot: Slot) => `room:${slot.roomId}`)
  async book(slot: Slot, userId: string): Promise<string> {
    const em = currentManager.getStore()!;
    const clashes = await em.query(
      'SELECT 1 FROM bookings WHERE room_id = $1 AND starts_at < $3 AND ends_at > $2 LIMIT 1',
      [slot.roomId, slot.from, slot.to],
    );
    if (clashes.length > 0) throw new ConflictException('room is taken at that time');

    const [row] = await em.query(
      'INSERT INTO bookings (room_id, user_id, starts_at, ends_at) VALUES ($1, $2, $3, $4) RETURNING id',
      [slot.roomId, userId, slot.from, slot.to],
    );
    await em.query('INSERT INTO outbox (kind, ref) VALUES ($1, $2)', ['booking.created', row.id]);
    this.log.log(`room ${slot.roomId} booked by ${userId}`);
    return row.id;
  }
}
