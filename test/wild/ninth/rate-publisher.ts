import { randomUUID } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { Redis } from 'ioredis';

const LEASE = 6_000;
const MARGIN = 200;

const RENEW = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('pexpire', KEYS[1], ARGV[2])
  end
  return 0`;
const ABDICATE = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
  end
  return 0`;

/**
 * Of all the instances one publishes exchange rates. Emits 'elected' and
 * 'deposed'; publishers ask isLeader right before each tick they send.
 */
export class RateLeader extends EventEmitter {
  readonly #redis: Redis;
  readonly #key: string;
  #token = '';
  #leadsUntil = 0;
  #leading = false;
  #timer: NodeJS.Timeout | undefined;
  #running = false;
  #stopped = false;

  constructor(redis: Redis, pair: string) {
    super();
    this.#redis = redis;
    this.#key = `rates:${pair}:leader`;
  }

  get isLeader(): boolean {
    return this.#leading && performance.now() < this.#leadsUntil;
  }

  start(): void {
    if (this.#running || this.#stopped) return;
    this.#running = true;
    void this.#round();
  }

  async stop(): Promise<void> {
    this.#running = false;
    this.#stopped = true;
    clearTimeout(this.#timer);
    const token = this.#token;
    this.#depose();
    if (token) {
      await this.#redis.eval(ABDICATE, 1, this.#key, token).catch((err) => console.warn('rates: abdicate', err));
    }
  }

  async #round(): Promise<void> {
    try {
      if (this.#leading) await this.#renew();
      else await this.#stand();
    } catch (err) {
      console.warn('rates: election', (err as Error).message);
    }
    if (this.#leading && !this.isLeader) this.#depose();
    if (this.#running) this.#timer = setTimeout(() => void this.#round(), LEASE / 3);
  }

  async #stand(): Promise<void> {
    const token = (this.#token = randomUUID());
    const won = await this.#redis.set(this.#key, token, 'PX', LEASE, 'NX');
    if (won !== 'OK') return;
    if (!this.#running) {
      await this.#redis.eval(ABDICATE, 1, this.#key, token);
      return;
    }
    this.#leadsUntil = performance.now() + LEASE - MARGIN;
    this.#leading = true;
    this.emit('elected');
  }

  async #renew(): Promise<void> {
    const token = this.#token;
    const kept = await this.#redis.eval(RENEW, 1, this.#key, token, LEASE);
    if (!this.#leading) return;
    if (kept !== 1 || !this.isLeader) return this.#depose();
    this.#leadsUntil = performance.now() + LEASE - MARGIN;
  }

  #depose(): void {
    if (!this.#leading) return;
    this.#leading = false;
    this.#leadsUntil = 0;
    this.emit('deposed');
  }
}

export function publishRates(
  leader: RateLeader,
  quotes: AsyncIterable<{ bid: number; ask: number }>,
  send: (q: { bid: number; ask: number }) => Promise<void>,
): Promise<void> {
  leader.start();
  return (async () => {
    try {
      for await (const q of quotes) {
        if (leader.isLeader) await send(q).catch((err) => console.error('rates: send', err));
      }
    } finally {
      await leader.stop();
    }
  })();
}
