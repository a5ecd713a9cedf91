import type { Redis } from 'ioredis';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const TTL = 6_000;
const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;
const EXTEND = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;

class BagLock {
  private until = 0;
  private timer?: NodeJS.Timeout;
  private gone = false;
  private readonly token = randomUUID();
  private readonly key: string;

  constructor(private readonly redis: Redis, player: string) {
    this.key = `bag:${player}`;
  }

  async lock() {
    for (;;) {
      const t = performance.now();
      if ((await this.redis.set(this.key, this.token, 'PX', TTL, 'NX')) === 'OK') {
        this.until = t + TTL;
        break;
      }
      await sleep(40 + Math.random() * 80);
    }
    this.timer = setInterval(() => this.extend(), TTL / 3);
  }

  private async extend() {
    const t = performance.now();
    const kept = await this.redis.eval(EXTEND, 1, this.key, this.token, TTL).catch(() => null);
    if (kept === 1 && !this.gone) this.until = t + TTL;
    if (kept === 0) this.gone = true;
  }

  check() {
    if (this.gone || performance.now() > this.until - 1_500) throw new Error(`${this.key}: lock lost`);
  }

  async unlock() {
    clearInterval(this.timer);
    this.gone = true;
    await this.redis.eval(RELEASE, 1, this.key, this.token).catch(() => undefined);
  }
}

export interface Bags {
  load(player: string): Promise<string[]>;
  swap(a: string, bagA: string[], b: string, bagB: string[], o: { timeoutMs: number }): Promise<void>;
}

/** `giver` hands `item` to `taker` */
export async function trade(redis: Redis, bags: Bags, giver: string, taker: string, item: string) {
  if (giver === taker) return;
  const first = new BagLock(redis, giver);
  await first.lock();
  try {
    const second = new BagLock(redis, taker);
    await second.lock();
    try {
      const [from, to] = await Promise.all([bags.load(giver), bags.load(taker)]);
      const at = from.indexOf(item);
      if (at < 0) throw new Error(`${giver} has no ${item}`);
      from.splice(at, 1);
      first.check();
      second.check();
      await bags.swap(giver, from, taker, [...to, item], { timeoutMs: 1_000 });
    } finally {
      await second.unlock();
    }
  } finally {
    await first.unlock();
  }
}
