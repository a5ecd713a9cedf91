import { createClient } from 'redis';
import cron from 'node-cron';
import { hostname } from 'node:os';
import { Pool } from 'pg';

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => console.error('redis', err));

const db = new Pool({ connectionString: process.env.DATABASE_URL });

const SLOT_SECONDS = 300;

/** One pod per five-minute slot does the scan, the others skip it. */
async function claimSlot(job: string): Promise<boolean> {
  const slot = Math.floor(Date.now() / 1000 / SLOT_SECONDS);
  const reply = await redis.set(`cron:${job}:${slot}`, hostname(), {
    NX: true,
    EX: SLOT_SECONDS * 2,
  });
  return reply === 'OK';
}

// sms_outbox has UNIQUE (appointment_id, kind); the sender service reads from it.
async function queueReminders(): Promise<number> {
  const result = await db.query(
    `INSERT INTO sms_outbox (appointment_id, kind, phone, body)
     SELECT a.id, 'reminder-24h', p.phone,
            format('Your appointment with %s is on %s', d.name, to_char(a.starts_at, 'DD.MM. HH24:MI'))
       FROM appointments a
       JOIN patients p ON p.id = a.patient_id
       JOIN doctors d ON d.id = a.doctor_id
      WHERE a.status = 'confirmed'
        AND p.sms_opt_in
        AND a.starts_at BETWEEN now() + interval '1 hour' AND now() + interval '24 hours'
     ON CONFLICT (appointment_id, kind) DO NOTHING`,
  );
  return result.rowCount ?? 0;
}

async function runReminders(): Promise<void> {
  try {
    if (!(await claimSlot('appointment-reminders'))) return;
    const queued = await queueReminders();
    if (queued > 0) console.log(`queued ${queued} reminders`);
  } catch (err) {
    // the next slot scans the same 24 hours again
    console.error('reminder scan failed', err);
  }
}

export async function start(): Promise<void> {
  await redis.connect();
  cron.schedule('*/5 * * * *', runReminders);
}
