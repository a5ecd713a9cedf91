import { EventEmitter } from 'node:events';
import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { Pool } from 'pg';
import twilio from 'twilio';

const RENEW = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;

export class Leadership extends EventEmitter {
  private readonly id = randomUUID();
  private leading = false;
  private timer?: NodeJS.Timeout;

  constructor(private readonly redis: Redis, private readonly key: string, private readonly ttlMs = 10_000) {
    super();
  }

  get isLeader() {
    return this.leading;
  }

  start() {
    const tick = async () => {
      try {
        if (this.leading) await this.renew();
        else await this.campaign();
      } catch (err) {
        console.warn('leadership: redis call failed, next try soon', (err as Error).message);
      }
      this.timer = setTimeout(tick, this.ttlMs / 3);
    };
    void tick();
  }

  stop() {
    clearTimeout(this.timer);
    this.leading = false;
  }

  private async campaign() {
    const ok = await this.redis.set(this.key, this.id, 'PX', this.ttlMs, 'NX');
    if (ok === 'OK') {
      this.leading = true;
      this.emit('gained');
    }
  }

  private async renew() {
    const kept = await this.redis.eval(RENEW, 1, this.key, this.id, this.ttlMs);
    if (kept !== 1) {
      this.leading = false;
      this.emit('lost');
    }
  }
}

const redis = new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: 2 });
const pool = new Pool();
const sms = twilio(process.env.TWILIO_SID, process.env.TWILIO_TOKEN);
const leadership = new Leadership(redis, 'reminders:leader');

async function sendDue() {
  if (!leadership.isLeader) return;
  const { rows } = await pool.query(
    `SELECT id, phone, body FROM reminders WHERE sent_at IS NULL AND due_at <= now() ORDER BY due_at LIMIT 50`,
  );
  for (const r of rows) {
    if (!leadership.isLeader) return;
    await sms.messages.create({ to: r.phone, from: process.env.SMS_FROM, body: r.body });
    await pool.query('UPDATE reminders SET sent_at = now() WHERE id = $1', [r.id]);
  }
}

async function loop() {
  try {
    await sendDue();
  } catch (err) {
    console.error('reminders', err);
  }
  setTimeout(loop, 2_000);
}

leadership.on('gained', () => console.log('sending reminders from here'));
leadership.on('lost', () => console.log('someone else sends reminders'));
leadership.start();
void loop();
