import express, { type NextFunction, type Request, type Response } from 'express';
import Redis from 'ioredis';
import { Pool } from 'pg';
import { randomUUID } from 'node:crypto';
import { requirePatient } from './auth';

const HOLD_MS = 5 * 60_000;

const REFRESH = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;

const DROP = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export interface HoldStore {
  place(slotId: string, holder: string): Promise<boolean>;
  refresh(slotId: string, holder: string): Promise<boolean>;
  drop(slotId: string, holder: string): Promise<void>;
}

export interface Appointment { id: string; slotId: string; holdId: string }

export class RedisHoldStore implements HoldStore {
  constructor(private readonly redis: Redis) {}

  async place(slotId: string, holder: string): Promise<boolean> {
    return (await this.redis.set(this.key(slotId), holder, 'PX', HOLD_MS, 'NX')) === 'OK';
  }

  async refresh(slotId: string, holder: string): Promise<boolean> {
    return (await this.redis.eval(REFRESH, 1, this.key(slotId), holder, HOLD_MS)) === 1;
  }

  async drop(slotId: string, holder: string): Promise<void> {
    await this.redis.eval(DROP, 1, this.key(slotId), holder);
  }

  private key(slotId: string): string {
    return `vaccination:slot:${slotId}:hold`;
  }
}

// appointments has UNIQUE (slot_id) and UNIQUE (hold_id).
export class AppointmentRepository {
  constructor(private readonly pool: Pool) {}

  async slotTaken(slotId: string): Promise<boolean> {
    const { rowCount } = await this.pool.query('SELECT 1 FROM appointments WHERE slot_id = $1', [slotId]);
    return (rowCount ?? 0) > 0;
  }

  async byHold(holdId: string, slotId: string, patientId: string): Promise<Appointment | undefined> {
    const { rows } = await this.pool.query<Appointment>(
      `SELECT id, slot_id AS "slotId", hold_id AS "holdId" FROM appointments
        WHERE hold_id = $1 AND slot_id = $2 AND patient_id = $3`,
      [holdId, slotId, patientId],
    );
    return rows[0];
  }

  async book(holdId: string, slotId: string, patientId: string): Promise<Appointment | undefined> {
    const { rows } = await this.pool.query<Appointment>(
      `INSERT INTO appointments (slot_id, patient_id, hold_id) VALUES ($1, $2, $3)
       ON CONFLICT DO NOTHING RETURNING id, slot_id AS "slotId", hold_id AS "holdId"`,
      [slotId, patientId, holdId],
    );
    return rows[0];
  }
}

export function slotRouter(holds: HoldStore, appointments: AppointmentRepository) {
  const router = express.Router();
  const handle = (fn: (req: Request, res: Response) => Promise<unknown>) =>
    (req: Request, res: Response, next: NextFunction) => { fn(req, res).catch(next); };

  router.use(requirePatient, express.json());

  router.post('/slots/:slotId/hold', handle(async (req, res) => {
    const { slotId } = req.params;
    const holdId = randomUUID();
    const holder = `${res.locals.patientId}:${holdId}`;
    if (!(await holds.place(slotId, holder))) return res.status(409).json({ error: 'slot_on_hold' });
    let free = false;
    try {
      free = !(await appointments.slotTaken(slotId));
    } finally {
      if (!free) await holds.drop(slotId, holder).catch((err) => console.warn('hold not dropped', slotId, err));
    }
    if (!free) return res.status(409).json({ error: 'slot_taken' });
    return res.status(201).json({ holdId, expiresInMs: HOLD_MS });
  }));

  router.post('/slots/:slotId/confirm', handle(async (req, res) => {
    const { slotId } = req.params;
    const { patientId } = res.locals;
    const holdId = String(req.body?.holdId ?? '');
    const holder = `${patientId}:${holdId}`;

    const earlier = await appointments.byHold(holdId, slotId, patientId);
    if (earlier) return res.json(earlier);
    if (!(await holds.refresh(slotId, holder))) return res.status(410).json({ error: 'hold_lapsed' });

    const booked = (await appointments.book(holdId, slotId, patientId))
      ?? (await appointments.byHold(holdId, slotId, patientId));
    await holds.drop(slotId, holder).catch((err) => console.warn('hold not dropped', slotId, err));
    if (!booked) return res.status(409).json({ error: 'slot_taken' });
    return res.status(201).json(booked);
  }));

  return router;
}
