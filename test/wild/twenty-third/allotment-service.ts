import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

interface Allotment {
  id: string;
  hotelId: string;
  season: string;
  roomsLeft: number;
  closed: boolean;
}

interface AllotmentRepository {
  findForStay(hotelId: string, arrival: string): Promise<Allotment | null>;
  setRoomsLeft(id: string, roomsLeft: number, opts: { signal: AbortSignal }): Promise<void>;
}

interface BookingRepository {
  insert(
    booking: { id: string; allotmentId: string; rooms: number; customerId: string },
    opts: { signal: AbortSignal },
  ): Promise<void>;
}

interface Logger {
  info(msg: string, ctx?: object): void;
  warn(msg: string, ctx?: object): void;
}

const TTL_MS = 15_000;
const WORK_MS = 9_000;
const WAIT_MS = 6_000;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

export class AllotmentService {
  private readonly redis: Redis;
  private readonly allotments: AllotmentRepository;
  private readonly bookings: BookingRepository;
  private readonly log: Logger;

  constructor(redis: Redis, allotments: AllotmentRepository, bookings: BookingRepository, log: Logger) {
    this.redis = redis;
    this.allotments = allotments;
    this.bookings = bookings;
    this.log = log;
  }

  /** Books rooms out of the contingent the hotel has given us for the season. */
  async book(hotelId: string, arrival: string, rooms: number, customerId: string): Promise<string> {
    // The season of the stay names the lock, and requests that can never succeed
    // are turned away here instead of queueing for it.
    const allotment = await this.allotments.findForStay(hotelId, arrival);
    if (!allotment || allotment.closed) throw new Error('no allotment for this stay');
    if (allotment.roomsLeft < rooms) throw new Error('allotment is sold out');

    return this.exclusively(`allotment:${hotelId}:${allotment.season}`, async (signal) => {
      const left = allotment.roomsLeft - rooms;
      const id = randomUUID();
      await this.allotments.setRoomsLeft(allotment.id, left, { signal });
      await this.bookings.insert({ id, allotmentId: allotment.id, rooms, customerId }, { signal });
      this.log.info('rooms booked from allotment', { id, allotmentId: allotment.id, left });
      return id;
    });
  }

  /** One agent at a time per key; the work is cut off well before the lock can expire. */
  private async exclusively<T>(key: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const token = randomUUID();
    const giveUpAt = performance.now() + WAIT_MS;
    let sentAt = performance.now();
    while ((await this.redis.set(key, token, 'PX', TTL_MS, 'NX')) !== 'OK') {
      if (performance.now() > giveUpAt) throw new Error(`${key} is busy, try again`);
      await sleep(60 + Math.random() * 90);
      sentAt = performance.now();
    }

    try {
      const budget = Math.floor(WORK_MS - (performance.now() - sentAt));
      if (budget <= 0) throw new Error(`${key} was granted too late`);
      return await work(AbortSignal.timeout(budget));
    } finally {
      await this.redis.eval(RELEASE, 1, key, token).catch((err: unknown) => {
        this.log.warn('lock left to expire', { key, err });
      });
    }
  }
}
