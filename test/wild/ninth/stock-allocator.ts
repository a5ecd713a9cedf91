import { randomUUID } from 'node:crypto';
import type { RedisClientType } from 'redis';

export interface Db {
  query(sql: string, params: unknown[]): Promise<{ rowCount: number; rows: Record<string, unknown>[] }>;
}
export interface Message {
  sku: string;
  ack(): Promise<void>;
  retryLater(): Promise<void>;
}

// One counter for all SKUs, so there is exactly one key that never expires.
// Redis only keeps two workers from wasting effort; what protects the row is
// the fence column: a worker first claims the row with its number and then may
// write only while that very number is still there.
const FENCE_KEY = 'allocator:fence';
const TTL = 20_000;

const TAKE = `
  if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
    return redis.call('INCR', KEYS[2])
  end
  return 0`;
const DROP = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
  return 0`;

export class StockAllocator {
  private readonly redis: RedisClientType;
  private readonly db: Db;

  constructor(redis: RedisClientType, db: Db) {
    this.redis = redis;
    this.db = db;
    redis.on('error', (err) => console.error('allocator redis', err));
  }

  /** Queue callback. Rebuilds the availability snapshot of one SKU (idempotent). */
  async handle(msg: Message): Promise<void> {
    const key = `allocator:lock:${msg.sku}`;
    const token = randomUUID();
    let fence = 0;
    try {
      fence = Number(await this.redis.eval(TAKE, { keys: [key, FENCE_KEY], arguments: [token, String(TTL)] }));
    } catch (err) {
      console.error(`allocator: no answer for ${msg.sku}`, err);
      void this.drop(key, token);
      return msg.retryLater();
    }
    if (fence === 0) return msg.retryLater();

    let done = false;
    try {
      done = await this.rebuild(msg.sku, fence);
    } catch (err) {
      console.error(`allocator: rebuild of ${msg.sku} failed`, err);
    } finally {
      await this.drop(key, token);
    }
    return done ? msg.ack() : msg.retryLater();
  }

  private async rebuild(sku: string, fence: number): Promise<boolean> {
    const claim = await this.db.query('UPDATE stock SET fence = $1 WHERE sku = $2 AND fence < $1', [fence, sku]);
    if (claim.rowCount === 0) return false; // someone newer is at it

    const { rows } = await this.db.query('SELECT qty FROM movements WHERE sku = $1', [sku]);
    const onHand = rows.reduce((sum, r) => sum + Number(r.qty), 0);

    const write = await this.db.query('UPDATE stock SET on_hand = $1 WHERE sku = $2 AND fence = $3', [onHand, sku, fence]);
    return write.rowCount === 1;
  }

  private async drop(key: string, token: string): Promise<void> {
    try {
      await this.redis.eval(DROP, { keys: [key], arguments: [token] });
    } catch (err) {
      console.warn(`allocator: ${key} left to expire`, err);
    }
  }
}
