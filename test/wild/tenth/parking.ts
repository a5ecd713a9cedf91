import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

/** Single-node lock used by the booking API. Times at the interface are in ms. */

const LEAVE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0`;

const seconds = (ms: number) => Math.max(1, Math.floor(ms / 1000));

export class ParkingFull extends Error {
  readonly resource: string;
  constructor(resource: string) {
    super(`no space for ${resource}`);
    this.name = 'ParkingFull';
    this.resource = resource;
  }
}

export class Space {
  readonly resource: string;
  private deadline: number;
  private leave: (() => Promise<boolean>) | undefined;

  constructor(resource: string, deadline: number, leave: () => Promise<boolean>) {
    this.resource = resource;
    this.deadline = deadline;
    this.leave = leave;
  }

  remaining(): number {
    return this.leave ? Math.max(0, this.deadline - performance.now()) : 0;
  }

  isValid(): boolean {
    return this.remaining() > 0;
  }

  assertValid(): void {
    if (!this.isValid()) throw new ParkingFull(this.resource);
  }

  async release(): Promise<boolean> {
    const leave = this.leave;
    this.leave = undefined;
    return leave ? leave() : false;
  }
}

export class ParkingLot {
  private readonly redis: Redis;
  private readonly replyMs: number;
  private readonly waitMs: number;

  constructor(redis: Redis, { replyMs = 1000, waitMs = 3000 } = {}) {
    this.redis = redis;
    this.replyMs = replyMs;
    this.waitMs = waitMs;
  }

  async acquire(resource: string, ttlMs: number): Promise<Space> {
    const key = `parking:${resource}`;
    const giveUp = performance.now() + this.waitMs;
    do {
      const plate = randomBytes(16).toString('hex');
      const leave = async () => (await this.timed(this.redis.eval(LEAVE, 1, key, plate))) === 1;
      const arrived = performance.now();
      let reply: string | null;
      try {
        reply = await this.timed(this.redis.set(key, plate, 'EX', seconds(ttlMs), 'NX'));
      } catch (err) {
        leave().catch(() => {}); // in case it did get through
        throw err;
      }
      if (reply === 'OK') {
        const deadline = arrived + ttlMs - Math.ceil(ttlMs * 0.01) - 2;
        if (performance.now() < deadline) return new Space(resource, deadline, leave);
        await leave();
      }
      await sleep(50 + Math.random() * 50);
    } while (performance.now() < giveUp);
    throw new ParkingFull(resource);
  }

  private async timed<T>(answer: Promise<T>): Promise<T> {
    let timer: NodeJS.Timeout | undefined;
    try {
      return await Promise.race([
        answer,
        new Promise<never>((_, reject) => {
          timer = setTimeout(() => reject(new Error('redis did not answer')), this.replyMs);
        }),
      ]);
    } finally {
      clearTimeout(timer);
    }
  }
}

export const make = ({ nodes }: { nodes: Redis[] }) => new ParkingLot(nodes[0]);
