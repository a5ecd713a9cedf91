import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

type Req = { headers: Record<string, string | undefined>; body: { roomId: string; night: string; card: string } };
type Res = { status(code: number): Res; json(body: unknown): void; set(name: string, value: string): Res };

export interface PaymentGateway {
  /** Rejects when the signal aborts. A repeated idempotencyKey never charges twice. */
  charge(card: string, opts: { idempotencyKey: string; signal: AbortSignal }): Promise<{ id: string }>;
}

const LOCK_MS = 30_000;
const CHARGE_MS = 10_000; // the gateway gets a third of the lock, the rest is reserve

const CONFIRM = `
  if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
  redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
  return 1
`;
const UNLOCK = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
  return 0
`;

/** POST /bookings — one booking per room and night. */
export function bookingHandler(redis: ReturnType<typeof createClient>, gateway: PaymentGateway) {
  return async (req: Req, res: Res): Promise<void> => {
    const idem = req.headers['idempotency-key'];
    if (!idem) {
      res.status(400).json({ error: 'Idempotency-Key is required' });
      return;
    }
    const { roomId, night, card } = req.body;
    const lockKey = `room:{${roomId}}:lock`;
    const nightsKey = `room:{${roomId}}:nights`;
    const token = randomUUID();

    const started = Date.now();
    let locked: string | null;
    try {
      locked = await redis.set(lockKey, token, { NX: true, PX: LOCK_MS });
    } catch (err) {
      console.error('lock', err);
      res.status(503).json({ error: 'try again later' });
      return;
    }
    if (locked !== 'OK') {
      res.status(409).set('Retry-After', '2').json({ error: 'room is being booked' });
      return;
    }

    try {
      const taken = await redis.hGet(nightsKey, night);
      if (taken) {
        const booking = JSON.parse(taken);
        if (booking.idem === idem) res.status(200).json(booking);
        else res.status(409).json({ error: 'room is taken' });
        return;
      }

      // not enough time left for the charge: do not begin
      if (Date.now() - started > LOCK_MS - 2 * CHARGE_MS) throw new Error('lock nearly expired');
      const payment = await gateway.charge(card, {
        idempotencyKey: `${roomId}/${night}/${idem}`,
        signal: AbortSignal.timeout(CHARGE_MS),
      });

      const booking = { roomId, night, idem, payment: payment.id };
      const confirmed = await redis.eval(CONFIRM, {
        keys: [lockKey, nightsKey],
        arguments: [token, night, JSON.stringify(booking)],
      });
      if (confirmed !== 1) throw new Error('lock expired before the booking was confirmed');
      res.status(201).json(booking);
    } catch (err) {
      console.error('booking', err);
      res.status(503).json({ error: 'not booked, repeat with the same Idempotency-Key' });
    } finally {
      await redis.eval(UNLOCK, { keys: [lockKey], arguments: [token] }).catch(() => {});
    }
  };
}
