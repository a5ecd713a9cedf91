import Redis from 'ioredis';
import { randomBytes } from 'node:crypto';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379', { maxRetriesPerRequest: 2 });

const UNLOCK = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
  end
  return 0`;

export class SlotContendedError extends Error {}
export class SlotTakenError extends Error {}

/** Body of POST /appointments, used by the patient portal and by the front-desk app. */
export interface BookingRequest {
  practitionerId: string;
  patientId: string;
  /** Start of the quarter-hour slot, ISO 8601 with offset, e.g. 2024-05-14T09:30:00+02:00 */
  startsAt: string;
  reason?: string;
}

export interface AppointmentRepo {
  findByPractitionerAndStart(practitionerId: string, start: Date): Promise<{ id: string } | null>;
  insert(row: { practitionerId: string; patientId: string; start: Date; reason: string | null }): Promise<string>;
}

async function withLock<T>(key: string, ttlMs: number, fn: () => Promise<T>): Promise<T> {
  const token = randomBytes(16).toString('hex');
  const deadline = Date.now() + 2_000;
  while ((await redis.set(key, token, 'PX', ttlMs, 'NX')) !== 'OK') {
    if (Date.now() > deadline) throw new SlotContendedError(key);
    await new Promise((r) => setTimeout(r, 50 + Math.floor(Math.random() * 75)));
  }
  try {
    return await fn();
  } finally {
    await redis.eval(UNLOCK, 1, key, token).catch((e: Error) => {
      console.warn(`[appointments] unlock ${key}: ${e.message}`);
    });
  }
}

export async function bookAppointment(repo: AppointmentRepo, req: BookingRequest): Promise<{ appointmentId: string }> {
  const start = new Date(req.startsAt);
  if (Number.isNaN(start.getTime())) throw new TypeError('startsAt is not a date');
  if (start.getUTCMinutes() % 15 !== 0 || start.getUTCSeconds() !== 0 || start.getUTCMilliseconds() !== 0) {
    throw new TypeError('startsAt must be on a quarter hour');
  }

  // one lock per slot of a practitioner, so that a busy morning does not serialise the whole clinic
  const key = `appointments:slot:${req.practitionerId}:${req.startsAt}`;

  return withLock(key, 10_000, async () => {
    const taken = await repo.findByPractitionerAndStart(req.practitionerId, start);
    if (taken) throw new SlotTakenError(`slot already holds appointment ${taken.id}`);

    const appointmentId = await repo.insert({
      practitionerId: req.practitionerId,
      patientId: req.patientId,
      start,
      reason: req.reason ?? null,
    });
    return { appointmentId };
  });
}
