import { createClient } from 'redis';
import { randomUUID } from 'node:crypto';

const TTL = 8_000;

const HEARTBEAT = `
local v = redis.call('GET', KEYS[1])
if v == false or v == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
return 0`;

const LEAVE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

/** The auctioneer of a lot: the only one to take bids for it. */
export class Auctioneer {
  private token = randomUUID();
  private validUntil = 0;
  private pulse?: NodeJS.Timeout;

  constructor(private readonly redis: ReturnType<typeof createClient>, readonly lot: string) {}

  private get key() {
    return `lot:${this.lot}:auctioneer`;
  }

  async open(): Promise<boolean> {
    const t = performance.now();
    const r = await this.redis.set(this.key, this.token, { condition: 'NX', expiration: { type: 'PX', value: TTL } });
    if (r !== 'OK') return false;
    this.validUntil = t + TTL;
    this.pulse = setInterval(() => this.heartbeat().catch((e) => console.error('heartbeat', e)), TTL / 4);
    return true;
  }

  private async heartbeat() {
    const t = performance.now();
    const r = await this.redis.eval(HEARTBEAT, { keys: [this.key], arguments: [this.token, String(TTL)] });
    if (r === 1) this.validUntil = t + TTL;
    else await this.close();
  }

  get presiding() {
    return performance.now() < this.validUntil - 1_000;
  }

  /** Reads the book once, keeps the highest bid in memory, writes back on the hammer. */
  async run(book: LotBook, bids: AsyncIterable<{ by: string; cents: number }>) {
    let top = await book.highest(this.lot);
    for await (const bid of bids) {
      if (!top || bid.cents > top.cents) top = bid;
    }
    if (!this.presiding) throw new Error(`lot ${this.lot}: no longer presiding`);
    if (top) await book.hammer(this.lot, top.by, top.cents, { timeoutMs: 800 });
  }

  async close() {
    clearInterval(this.pulse);
    this.validUntil = 0;
    await this.redis.eval(LEAVE, { keys: [this.key], arguments: [this.token] });
  }
}

export interface LotBook {
  highest(lot: string): Promise<{ by: string; cents: number } | null>;
  hammer(lot: string, by: string, cents: number, o: { timeoutMs: number }): Promise<void>;
}
