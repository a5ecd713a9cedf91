import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisClientType } from 'redis';

const TAKE_ALL = `
for i = 1, #KEYS do
  if redis.call('EXISTS', KEYS[i]) == 1 then
    return i
  end
end
for i = 1, #KEYS do
  redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
end
return 0`;

const GIVE_BACK = `
local n = 0
for i = 1, #KEYS do
  if redis.call('GET', KEYS[i]) == ARGV[1] then
    n = n + redis.call('DEL', KEYS[i])
  end
end
return n`;

export class RoomsUnavailable extends Error {
  readonly room: string;
  constructor(room: string) {
    super(`room ${room} is being booked`);
    this.name = 'RoomsUnavailable';
    this.room = room;
  }
}

export class BookingLock {
  private readonly client: RedisClientType;
  private readonly ttlMs: number;
  private readonly attempts: number;

  constructor(client: RedisClientType, options: { ttlMs?: number; attempts?: number } = {}) {
    this.client = client;
    this.ttlMs = options.ttlMs ?? 10_000;
    this.attempts = options.attempts ?? 5;
  }

  async withRooms<T>(hotel: string, rooms: string[], fn: () => Promise<T>): Promise<T> {
    const unique = [...new Set(rooms)].sort();
    if (unique.length === 0) return fn();
    const keys = unique.map((room) => `booking:{${hotel}}:${room}`);
    const token = randomUUID();

    await this.take(keys, token, unique);
    try {
      return await fn();
    } finally {
      await this.giveBack(keys, token);
    }
  }

  private async take(keys: string[], token: string, rooms: string[]): Promise<void> {
    let taken = 0;
    for (let i = 0; i < this.attempts; i++) {
      try {
        const reply = await this.client.eval(TAKE_ALL, { keys, arguments: [token, String(this.ttlMs)] });
        taken = Number(reply);
      } catch (err) {
        // it may have run on the server even so
        await this.giveBack(keys, token);
        throw err;
      }
      if (taken === 0) return;
      await sleep(40 * (i + 1) + Math.random() * 40);
    }
    throw new RoomsUnavailable(rooms[taken - 1] ?? '?');
  }

  private async giveBack(keys: string[], token: string): Promise<void> {
    try {
      await this.client.eval(GIVE_BACK, { keys, arguments: [token] });
    } catch (err) {
      console.warn('rooms not given back, they expire by themselves', keys, err);
    }
  }
}

export function nights(from: Date, to: Date): number {
  return Math.round((to.getTime() - from.getTime()) / 86_400_000);
}
