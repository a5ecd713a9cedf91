import { randomUUID } from 'node:crypto';
import type { RedisClientType } from 'redis';

export interface Delivery {
  eventId: string;
  payload: unknown;
  ack(): Promise<void>;
  /** puts the delivery back, to come again after some seconds */
  nack(): Promise<void>;
}

/** Gets a function that throws when the lock is over; call it before each write. */
export type Apply = (payload: unknown, check: () => void) => Promise<void>;

const LOCK_MS = 30_000;
const DONE_S = 7 * 86_400;

const FINISH = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], '1', 'EX', ARGV[2])
redis.call('DEL', KEYS[1])
return 1`;

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

/**
 * The payment provider delivers at least once, often twice within the same
 * second and to different workers. An event marked as done is never applied
 * again (within a week, after which the provider gives up, too), and no two
 * workers apply an event at the same time.
 */
export function createInbox(client: RedisClientType, apply: Apply) {
  return async function onDelivery(d: Delivery): Promise<void> {
    const lock = `inbox:{${d.eventId}}:lock`;
    const done = `inbox:{${d.eventId}}:done`;
    const token = randomUUID();
    const unlock = () =>
      client
        .eval(UNLOCK, { keys: [lock], arguments: [token] })
        .catch((err) => console.warn(`inbox: ${d.eventId} stays locked for a while`, err));

    let until = 0;
    try {
      // most duplicates end here and never touch the lock
      if (await client.exists(done)) return d.ack();

      until = performance.now() + LOCK_MS - 500;
      const reply = await client.set(lock, token, { condition: 'NX', expiration: { type: 'PX', value: LOCK_MS } });
      if (reply !== 'OK') return d.nack();
    } catch (err) {
      console.error(`inbox: redis trouble with ${d.eventId}`, err);
      void unlock();
      return d.nack();
    }

    const check = () => {
      if (performance.now() >= until) throw new Error(`event ${d.eventId}: lock is over`);
    };

    try {
      check();
      await apply(d.payload, check);
      check();
      const marked = Number(await client.eval(FINISH, { keys: [lock, done], arguments: [token, String(DONE_S)] }));
      if (marked !== 1) throw new Error(`event ${d.eventId}: lost the lock before it was marked`);
    } catch (err) {
      console.error(`inbox: ${d.eventId}`, err);
      await unlock();
      return d.nack();
    }
    await d.ack();
  };
}
