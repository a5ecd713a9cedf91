import type { Redis } from 'ioredis';

interface HttpRequest {
  body: { paymentId: string; amount: number };
  header(name: string): string | undefined;
}

interface HttpResponse {
  status(code: number): this;
  json(body: unknown): this;
}

export interface PaymentProvider {
  refund(paymentId: string, amount: number): Promise<{ refundId: string }>;
}

const ONE_WEEK = 7 * 24 * 60 * 60;

/**
 * POST /refunds
 *
 * The mobile app sends the same request again when it got no answer, always with the same
 * Idempotency-Key. A refund is made once per key.
 */
export const createRefundHandler =
  (redis: Redis, payments: PaymentProvider) =>
  async (req: HttpRequest, res: HttpResponse): Promise<HttpResponse> => {
    const idempotencyKey = req.header('idempotency-key');
    if (!idempotencyKey) {
      return res.status(400).json({ error: 'Idempotency-Key header is missing' });
    }

    const key = `refund:idempotency:${idempotencyKey}`;

    const previous = await redis.get(key);
    if (previous !== null) {
      return res.status(200).json(JSON.parse(previous));
    }

    const { paymentId, amount } = req.body;
    const refund = await payments.refund(paymentId, amount);

    const response = { refundId: refund.refundId, paymentId, amount };
    await redis.set(key, JSON.stringify(response), 'EX', ONE_WEEK, 'NX');

    return res.status(201).json(response);
  };
