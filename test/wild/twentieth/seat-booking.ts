import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const TTL_MS = 6_000;
const BUDGET_MS = 4_000;

export class ShowBusyError extends Error {}

interface Request {
  params: { showId: string };
  body: { seats: string[]; customer: string };
}

interface Response {
  status(code: number): Response;
  json(body: unknown): void;
}

type Next = (err?: unknown) => void;

interface Plan {
  /** seat -> customer, or null while free */
  seats: Record<string, string | null>;
  revision: number;
}

async function withShowLock<T>(
  redis: Redis,
  showId: string,
  fn: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const key = `show:${showId}:lock`;
  for (let attempt = 0; attempt < 20; attempt++) {
    const token = randomUUID();
    const signal = AbortSignal.timeout(BUDGET_MS);
    if ((await redis.set(key, token, 'PX', TTL_MS, 'NX')) === 'OK') {
      try {
        return await fn(signal);
      } finally {
        await redis.eval(UNLOCK, 1, key, token).catch((err) => {
          console.warn('show lock left to expire', showId, err);
        });
      }
    }
    await sleep(50 + Math.random() * 100);
  }
  throw new ShowBusyError(showId);
}

async function loadPlan(redis: Redis, showId: string): Promise<Plan | null> {
  const raw = await redis.get(`show:${showId}:plan`);
  return raw === null ? null : (JSON.parse(raw) as Plan);
}

export function bookingHandler(redis: Redis) {
  return async function book(req: Request, res: Response, next: Next): Promise<void> {
    const { showId } = req.params;
    const { seats, customer } = req.body;
    try {
      // Unknown shows and unknown seats are refused without making anybody wait.
      const plan = await loadPlan(redis, showId);
      if (!plan) {
        res.status(404).json({ error: 'no such show' });
        return;
      }
      const unknown = seats.filter((seat) => !(seat in plan.seats));
      if (unknown.length > 0) {
        res.status(422).json({ error: 'unknown seats', seats: unknown });
        return;
      }

      const taken = await withShowLock(redis, showId, async (signal) => {
        const occupied = seats.filter((seat) => plan.seats[seat] !== null);
        if (occupied.length > 0) return occupied;

        for (const seat of seats) plan.seats[seat] = customer;
        plan.revision += 1;
        signal.throwIfAborted();
        await redis.set(`show:${showId}:plan`, JSON.stringify(plan));
        return [];
      });

      if (taken.length > 0) {
        res.status(409).json({ error: 'already taken', seats: taken });
        return;
      }
      res.status(201).json({ showId, seats, customer });
    } catch (err) {
      if (err instanceof ShowBusyError) {
        res.status(503).json({ error: 'please try again' });
        return;
      }
      next(err);
    }
  };
}
