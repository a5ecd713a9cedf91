import type { Request, Response, NextFunction } from 'express';
import type Redis from 'ioredis';

const LOCK_TTL_MS = 20_000;

export interface Slot {
  id: string;
  startsAt: string;
  remaining: number;
}

export interface SlotRepository {
  find(consulate: string, slotId: string, signal: AbortSignal): Promise<Slot | null>;
  /** Stores the appointment and the new number of free places in one transaction. */
  book(slotId: string, passportNo: string, remaining: number, signal: AbortSignal): Promise<string>;
}

/**
 * POST /consulates/:consulate/slots/:slotId/appointments
 *
 * One request at a time per slot; the others are told to come back in a second.
 */
export function bookAppointment(redis: Redis, slots: SlotRepository) {
  return async (req: Request, res: Response, next: NextFunction): Promise<void> => {
    const consulate = String(req.params.consulate);
    const slotId = String(req.params.slotId);
    const passportNo = req.body?.passportNo;

    if (typeof passportNo !== 'string' || passportNo.length < 6) {
      res.status(422).json({ error: 'passportNo is required' });
      return;
    }

    const lockKey = `visa:${consulate}:slot:${slotId}:lock`;
    const signal = AbortSignal.timeout(12_000);

    try {
      const locked = await redis.set(lockKey, passportNo, 'PX', LOCK_TTL_MS, 'NX');
      if (locked !== 'OK') {
        res.set('Retry-After', '1').status(409).json({ error: 'slot is being booked, try again' });
        return;
      }

      const slot = await slots.find(consulate, slotId, signal);
      if (!slot) {
        res.status(404).json({ error: 'no such slot' });
        return;
      }
      if (slot.remaining < 1) {
        res.status(410).json({ error: 'slot is full' });
        return;
      }

      const appointmentId = await slots.book(slot.id, passportNo, slot.remaining - 1, signal);
      res.status(201).json({ appointmentId, startsAt: slot.startsAt });
    } catch (err) {
      next(err);
    } finally {
      await redis.del(lockKey).catch((err) => console.error('could not unlock', lockKey, err));
    }
  };
}
