import { randomUUID } from 'node:crypto';
import cron from 'node-cron';
import Redis from 'ioredis';
import axios from 'axios';
import { addHours, formatISO } from 'date-fns';
import { PrismaClient, type Appointment, type Patient } from '@prisma/client';
import pino from 'pino';

const log = pino({ name: 'reminder-sweep' });
const prisma = new PrismaClient();
const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');

const LOCK_KEY = 'cron:reminder-sweep';
const LOCK_TTL_MS = 4 * 60_000;
const STATS_KEY = 'cron:reminder-sweep:stats';
// 40 messages x 3s timeout stays well below the lock time
const BATCH = 40;
const SMS_TIMEOUT = 3_000;

const RELEASE_LUA = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  end
  return 0
`;

type Due = Appointment & { patient: Patient };

async function tryLock(): Promise<string | null> {
  const token = randomUUID();
  // counted in the same round trip, Grafana shows attempts next to runs
  const replies = await redis
    .multi()
    .set(LOCK_KEY, token, 'PX', LOCK_TTL_MS, 'NX')
    .hincrby(STATS_KEY, 'attempts', 1)
    .hset(STATS_KEY, 'lastAttempt', formatISO(new Date()))
    .exec();

  if (!replies) return null;
  const [lockReply] = replies;
  if (!lockReply) return null;
  return token;
}

async function unlock(token: string): Promise<void> {
  try {
    await redis.eval(RELEASE_LUA, 1, LOCK_KEY, token);
  } catch (err) {
    log.warn({ err }, 'unlock failed');
  }
}

async function sendSms(a: Due): Promise<void> {
  await axios.post(
    `${process.env.SMS_API}/messages`,
    {
      to: a.patient.phone,
      text: `Reminder: your appointment is on ${a.startsAt.toLocaleString('en-GB')}. Reply C to cancel.`,
    },
    { timeout: SMS_TIMEOUT, headers: { 'x-api-key': process.env.SMS_KEY } },
  );
}

export async function sweep(): Promise<number> {
  const token = await tryLock();
  if (!token) {
    log.debug('sweep is running elsewhere');
    return 0;
  }

  let sent = 0;
  try {
    const due: Due[] = await prisma.appointment.findMany({
      where: {
        startsAt: { gt: new Date(), lt: addHours(new Date(), 24) },
        status: 'CONFIRMED',
        reminderSentAt: null,
      },
      include: { patient: true },
      orderBy: { startsAt: 'asc' },
      take: BATCH,
    });

    for (const appointment of due) {
      try {
        await sendSms(appointment);
        await prisma.appointment.update({
          where: { id: appointment.id },
          data: { reminderSentAt: new Date() },
        });
        sent += 1;
      } catch (err) {
        log.error({ err, appointmentId: appointment.id }, 'reminder failed, next sweep retries');
      }
    }
    await redis.hincrby(STATS_KEY, 'runs', 1);
    return sent;
  } finally {
    await unlock(token);
  }
}

export function scheduleReminders() {
  return cron.schedule('*/5 * * * *', () => {
    sweep()
      .then((n) => n > 0 && log.info({ sent: n }, 'reminders sent'))
      .catch((err) => log.error({ err }, 'sweep failed'));
  });
}
