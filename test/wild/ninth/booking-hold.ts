import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient, type RedisClientType } from 'redis';

export async function openRedis(): Promise<RedisClientType> {
  const client = createClient({ url: process.env.REDIS_URL ?? 'redis://localhost:6379' });
  client.on('error', (err) => console.error('booking redis', err));
  await client.connect();
  return client;
}

const UNLOCK = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end`;
const EXTEND = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) else return 0 end`;

export class RoomLock {
  readonly #client: RedisClientType;
  readonly #key: string;
  readonly #ttl: number;

  constructor(client: RedisClientType, room: string, ttl = 9_000) {
    this.#client = client;
    this.#key = `booking:room:${room}`;
    this.#ttl = ttl;
  }

  /** Waits for its turn, `timeout` ms at most. */
  async acquire(timeout = 3_000): Promise<RoomLease> {
    const timer = new AbortController();
    const late = sleep(timeout, undefined, { signal: timer.signal }).then(() => {
      throw new Error(`${this.#key}: not free within ${timeout} ms`);
    });
    try {
      return await Promise.race([this.#spin(), late]);
    } finally {
      late.catch(() => {});
      timer.abort();
    }
  }

  async #spin(): Promise<RoomLease> {
    for (let pause = 40; ; pause = Math.min(pause * 2, 500)) {
      const token = randomUUID();
      const sent = performance.now();
      try {
        const reply = await this.#client.set(this.#key, token, { NX: true, PX: this.#ttl });
        if (reply === 'OK') return new RoomLease(this.#client, this.#key, token, this.#ttl, sent);
      } catch (err) {
        await this.#client.eval(UNLOCK, { keys: [this.#key], arguments: [token] }).catch(() => {});
        throw err;
      }
      await sleep(pause + Math.random() * pause);
    }
  }
}

export class RoomLease {
  readonly #release: () => Promise<void>;
  readonly #extend: () => Promise<boolean>;
  readonly #ttl: number;
  #until: number;
  #over = false;
  #beat: NodeJS.Timeout | undefined;

  constructor(client: RedisClientType, key: string, token: string, ttl: number, sent: number) {
    this.#ttl = ttl;
    this.#until = sent + ttl - 300;
    this.#extend = async () => Number(await client.eval(EXTEND, { keys: [key], arguments: [token, String(ttl)] })) === 1;
    this.#release = async () => {
      await client.eval(UNLOCK, { keys: [key], arguments: [token] });
    };
    this.#schedule();
  }

  #schedule(): void {
    this.#beat = setTimeout(async () => {
      const sent = performance.now();
      try {
        if ((await this.#extend()) && performance.now() < this.#until) this.#until = sent + this.#ttl - 300;
        else this.#over = true;
      } catch (err) {
        console.warn('booking: heartbeat', err);
      }
      if (!this.#over) this.#schedule();
    }, this.#ttl / 3);
  }

  /** Before each write. */
  assert(): void {
    if (this.#over || performance.now() >= this.#until) throw new Error('booking: room lock lost');
  }

  async release(): Promise<void> {
    this.#over = true;
    clearTimeout(this.#beat);
    await this.#release().catch((err) => console.warn('booking: release', err));
  }
}

export interface Calendar {
  isFree(room: string, night: string): Promise<boolean>;
  enter(room: string, night: string, guest: string): Promise<void>;
}

export async function book(client: RedisClientType, calendar: Calendar, room: string, night: string, guest: string): Promise<boolean> {
  const lease = await new RoomLock(client, room).acquire();
  try {
    if (!(await calendar.isFree(room, night))) return false;
    lease.assert();
    await calendar.enter(room, night, guest);
    return true;
  } finally {
    await lease.release();
  }
}
