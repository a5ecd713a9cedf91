import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { createClient } from 'redis';

type RedisClient = ReturnType<typeof createClient>;

export interface PermitDb {
  application(district: string, id: string): Promise<{ id: string; approved: boolean; permitNumber: string | null } | null>;
  highestSerial(district: string, year: number): Promise<number>;
  /** sets the number on the application and adds the register row, in one transaction */
  register(entry: { district: string; applicationId: string; year: number; serial: number; permitNumber: string }): Promise<void>;
}

export interface PermitHandlerOptions {
  redis: RedisClient;
  db: PermitDb; // every statement is cancelled by the server after 3 s
  clock?: { now(): Date };
  audit: (event: string, details: Record<string, unknown>) => void;
}

const ROUTE = /^\/districts\/([a-z]{2,20})\/applications\/(\d{1,12})\/permit$/;
const REGISTER_LOCK_MS = 30_000;
const UNLOCK = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;

function json(res: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  res.writeHead(status, { 'content-type': 'application/json', ...headers });
  res.end(JSON.stringify(body));
}

/** POST /districts/:district/applications/:id/permit - serials run without gaps per district and year. */
export function permitHandler({ redis, db, audit, clock = { now: () => new Date() } }: PermitHandlerOptions) {
  return async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
    const match = ROUTE.exec(req.url ?? '');
    if (req.method !== 'POST' || !match) return json(res, 404, { error: 'not found' });
    const [, district, applicationId] = match as unknown as [string, string, string];

    const lockKey = `permits:register:${district}`;
    const owner = randomUUID();

    let locked = false;
    try {
      locked = (await redis.set(lockKey, owner, { NX: true, PX: REGISTER_LOCK_MS })) === 'OK';
      if (!locked) {
        return json(res, 503, { error: 'register is in use' }, { 'retry-after': '1' });
      }

      const application = await db.application(district, applicationId);
      if (!application) return json(res, 404, { error: 'no such application' });
      if (application.permitNumber) return json(res, 200, { permitNumber: application.permitNumber });
      if (!application.approved) return json(res, 422, { error: 'application is not approved' });

      const year = clock.now().getUTCFullYear();
      const serial = (await db.highestSerial(district, year)) + 1;
      const permitNumber = `${district.toUpperCase()}-${year}-${String(serial).padStart(5, '0')}`;
      await db.register({ district, applicationId, year, serial, permitNumber });

      audit('permit.issued', { district, applicationId, permitNumber });
      json(res, 201, { permitNumber });
    } catch (err) {
      audit('permit.failed', { district, applicationId, error: String(err) });
      if (!res.headersSent) json(res, 500, { error: 'internal error' });
    } finally {
      if (locked) {
        await redis.eval(UNLOCK, { keys: [lockKey], arguments: [owner] }).catch((err: unknown) => {
          audit('permit.unlock-failed', { lockKey, error: String(err) });
        });
      }
    }
  };
}
