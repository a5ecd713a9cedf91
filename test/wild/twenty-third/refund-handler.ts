import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';

interface TripOrder {
  id: string;
  paymentId: string;
  paidCents: number;
  refundedCents: number;
}

interface OrderRepository {
  load(id: string): Promise<TripOrder>;
  setRefunded(id: string, refundedCents: number): Promise<void>;
}

interface FraudCheck {
  approve(order: TripOrder, cents: number): Promise<boolean>;
}

interface PaymentProvider {
  refund(paymentId: string, cents: number): Promise<void>;
}

interface Logger {
  info(msg: string, ctx?: object): void;
  warn(msg: string, ctx?: object): void;
}

const TTL_MS = 30_000;
const LIMIT_MS = 20_000;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

export class BusyError extends Error {}
export class TimeLimitError extends Error {}

/** Runs the task under the lock and within LIMIT_MS, which leaves ten seconds to the TTL. */
async function withOrderLock<T>(redis: Redis, orderId: string, log: Logger, task: () => Promise<T>): Promise<T> {
  const key = `order:${orderId}:refund`;
  const token = randomUUID();

  const sentAt = performance.now();
  const reply = await redis.set(key, token, { nx: true, px: TTL_MS });
  if (reply !== 'OK') throw new BusyError(`a refund of ${orderId} is in progress`);

  let timer: NodeJS.Timeout | undefined;
  try {
    const limit = LIMIT_MS - (performance.now() - sentAt);
    if (limit <= 0) throw new TimeLimitError('lock was granted too late');
    const timeUp = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new TimeLimitError(`refund of ${orderId} took too long`)), limit);
    });
    return await Promise.race([task(), timeUp]);
  } finally {
    clearTimeout(timer);
    await redis.eval(RELEASE, [key], [token]).catch((err: unknown) => {
      log.warn('refund lock left to expire', { key, err });
    });
  }
}

export function createRefundHandler(deps: {
  redis: Redis;
  orders: OrderRepository;
  fraud: FraudCheck;
  payments: PaymentProvider;
  log: Logger;
}) {
  const { redis, orders, fraud, payments, log } = deps;

  async function refund(orderId: string, cents: number): Promise<'refunded' | 'declined'> {
    const order = await orders.load(orderId);
    if (order.refundedCents + cents > order.paidCents) return 'declined';
    if (!(await fraud.approve(order, cents))) return 'declined';

    // Booked first: if the provider fails, the back office sees an open refund.
    await orders.setRefunded(orderId, order.refundedCents + cents);
    await payments.refund(order.paymentId, cents);
    log.info('trip refunded', { orderId, cents });
    return 'refunded';
  }

  return async function handle(body: { orderId: string; cents: number }): Promise<{ status: number; result: string }> {
    try {
      const result = await withOrderLock(redis, body.orderId, log, () => refund(body.orderId, body.cents));
      return { status: 200, result };
    } catch (err) {
      if (err instanceof BusyError) return { status: 409, result: 'busy' };
      if (err instanceof TimeLimitError) return { status: 503, result: 'please try again' };
      throw err;
    }
  };
}

export const redisFromEnv = (): Redis => Redis.fromEnv();
