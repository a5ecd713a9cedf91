import { Redis } from 'ioredis';
import Redlock, { ExecutionError } from 'redlock5';

// Three independent masters in three zones (no replication between them).
const nodes = (process.env.LOCK_REDIS_URLS ?? '')
  .split(',')
  .filter(Boolean)
  .map((url) => new Redis(url, { maxRetriesPerRequest: 1, commandTimeout: 500 }));

const redlock = new Redlock(nodes, {
  driftFactor: 0.01,
  retryCount: 8,
  retryDelay: 150,
  retryJitter: 100,
  automaticExtensionThreshold: 3_000,
});

redlock.on('error', (err: unknown) => {
  // emitted for each node that is down or already locked, too noisy for warn
  console.debug('redlock', err);
});

interface Db {
  query<T>(sql: string, params: unknown[]): Promise<{ rows: T[]; rowCount: number }>;
}

interface RoutePlanner {
  rank(orderId: string, couriers: string[]): Promise<string[]>;
}

interface Req {
  params: { orderId: string };
}
interface Res {
  status(code: number): Res;
  json(body: unknown): void;
}

export class AssignmentInterrupted extends Error {}

export function assignCourierHandler(db: Db, planner: RoutePlanner) {
  return async (req: Req, res: Res, next: (err: unknown) => void) => {
    const { orderId } = req.params;
    let assigned: string | null = null;

    try {
      await redlock.using([`dispatch:order:${orderId}`], 10_000, async (signal) => {
        const free = await db.query<{ id: string }>(
          'select id from couriers where on_shift and current_order is null limit 40',
          [],
        );
        // Asks the routing engine, a second on a good day and half a minute on a bad one.
        const ranked = await planner.rank(orderId, free.rows.map((c) => c.id));

        for (const courierId of ranked) {
          if (signal.aborted) throw new AssignmentInterrupted(String(signal.error));
          // One statement, and it only takes an order and a courier that are both still free.
          const { rowCount } = await db.query(
            `with c as (
               update couriers set current_order = $1
                where id = $2 and current_order is null
                  and exists (select 1 from orders where id = $1 and courier_id is null for update)
               returning id)
             update orders set courier_id = (select id from c)
              where id = $1 and courier_id is null and exists (select 1 from c)`,
            [orderId, courierId],
          );
          if (rowCount === 1) {
            assigned = courierId;
            return;
          }
        }
      });
    } catch (err) {
      if (!(assigned && err instanceof ExecutionError)) {
        if (err instanceof ExecutionError) {
          return res.status(409).json({ error: 'order is being dispatched' });
        }
        if (err instanceof AssignmentInterrupted) {
          console.warn('dispatch lock lost', orderId, err.message);
          return res.status(503).json({ error: 'try again' });
        }
        return next(err);
      }
      // The assignment is committed, only the unlock failed; the locks run out by themselves.
      console.warn('dispatch unlock failed', orderId, err);
    }

    if (!assigned) return res.status(404).json({ error: 'no courier free' });
    res.status(200).json({ orderId, courierId: assigned });
  };
}
