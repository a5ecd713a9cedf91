import type { NextFunction, Request, RequestHandler, Response } from 'express';
import { Redis } from 'ioredis';
import Redlock, { ResourceLockedError, type Lock } from 'redlock5';

/* ---- domain ---- */

export interface Slot {
  id: string;
  office: string;
  capacity: number;
}

export interface Appointment {
  reference: string;
  slotId: string;
  applicantId: string;
}

export class SlotFullError extends Error {}
export class SlotBusyError extends Error {}

/* ---- persistence ---- */

export interface AppointmentRepository {
  slot(slotId: string): Promise<Slot | undefined>;
  countForSlot(slotId: string): Promise<number>;
  insert(slotId: string, applicantId: string): Promise<Appointment>;
}

/* ---- locking ---- */

export interface SlotLocks {
  exclusive<T>(slotId: string, work: () => Promise<T>): Promise<T>;
}

export class RedlockSlotLocks implements SlotLocks {
  private static readonly DURATION_MS = 30_000;

  constructor(
    private readonly redlock: Redlock,
    private readonly log: Pick<Console, 'warn'>,
  ) {}

  async exclusive<T>(slotId: string, work: () => Promise<T>): Promise<T> {
    let lock: Lock | undefined;
    try {
      lock = await this.redlock.acquire([`passport:slot:${slotId}`], RedlockSlotLocks.DURATION_MS);
    } catch (err) {
      if (err instanceof ResourceLockedError) throw new SlotBusyError(slotId);
      // Counters must stay open while redis is being maintained.
      this.log.warn(`slot ${slotId}: lock service not available`, err);
    }

    try {
      return await work();
    } finally {
      if (lock) {
        await lock.release().catch((err) => this.log.warn(`slot ${slotId}: release failed`, err));
      }
    }
  }
}

/* ---- application service ---- */

export class AppointmentService {
  constructor(
    private readonly locks: SlotLocks,
    private readonly repo: AppointmentRepository,
  ) {}

  book(slotId: string, applicantId: string): Promise<Appointment> {
    return this.locks.exclusive(slotId, async () => {
      const slot = await this.repo.slot(slotId);
      if (!slot) throw new RangeError(`no slot ${slotId}`);
      const taken = await this.repo.countForSlot(slotId);
      if (taken >= slot.capacity) throw new SlotFullError(slotId);
      return this.repo.insert(slotId, applicantId);
    });
  }
}

/* ---- http ---- */

export function bookAppointment(service: AppointmentService): RequestHandler {
  return async (req: Request, res: Response, next: NextFunction) => {
    const { slotId } = req.params as { slotId: string };
    const applicantId = req.header('x-applicant-id');
    if (!applicantId) {
      res.status(401).end();
      return;
    }
    try {
      const appointment = await service.book(slotId, applicantId);
      res.status(201).json(appointment);
    } catch (err) {
      if (err instanceof SlotFullError) res.status(409).json({ error: 'slot-full' });
      else if (err instanceof SlotBusyError) res.status(503).set('retry-after', '2').json({ error: 'slot-busy' });
      else if (err instanceof RangeError) res.status(404).json({ error: 'no-such-slot' });
      else next(err);
    }
  };
}

/* ---- composition ---- */

export function compose(repo: AppointmentRepository, env = process.env): RequestHandler {
  const redis = new Redis(env.REDIS_URL ?? 'redis://localhost:6379', { maxRetriesPerRequest: 1 });
  redis.on('error', (err) => console.warn('redis', err.message));
  const redlock = new Redlock([redis], { retryCount: 5, retryDelay: 150, retryJitter: 75 });
  return bookAppointment(new AppointmentService(new RedlockSlotLocks(redlock, console), repo));
}
