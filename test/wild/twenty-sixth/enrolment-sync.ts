import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type Redis from 'ioredis';

// The district's student system closes our account when we open more than four sessions at once.
const MAX_SESSIONS = 4;
const SLOT_MS = 20_000;

const NOW = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
`;

const TAKE = `${NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], tonumber(ARGV[3]) * 2)
return 1`;

const KEEP = `${NOW}
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
redis.call('ZADD', KEYS[1], 'XX', now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], tonumber(ARGV[2]) * 2)
return 1`;

export class SessionPool {
  constructor(
    private readonly redis: Redis,
    private readonly districtId: string,
    private readonly onWarning: (msg: string, err?: unknown) => void = console.warn,
  ) {}

  private get key() {
    return `sis:${this.districtId}:sessions`;
  }

  async withSession<T>(fn: (signal: AbortSignal) => Promise<T>, waitMs = 60_000): Promise<T> {
    const id = randomUUID();
    const giveUp = Date.now() + waitMs;
    let confirmedAt = performance.now();
    while ((await this.redis.eval(TAKE, 1, this.key, id, MAX_SESSIONS, SLOT_MS)) !== 1) {
      if (Date.now() >= giveUp) throw new Error(`no free session for district ${this.districtId}`);
      await delay(400 + Math.random() * 400);
      confirmedAt = performance.now();
    }

    const ctl = new AbortController();
    const timer = setInterval(() => {
      if (performance.now() - confirmedAt >= SLOT_MS - 5_000) {
        ctl.abort(new Error('session slot could not be kept'));
        return;
      }
      const asked = performance.now();
      this.redis.eval(KEEP, 1, this.key, id, SLOT_MS).then(
        (kept) => {
          if (kept === 1) confirmedAt = Math.max(confirmedAt, asked);
          else ctl.abort(new Error('session slot was given away'));
        },
        (err) => this.onWarning('keeping session slot failed', err),
      );
    }, 3_000);

    try {
      ctl.signal.throwIfAborted();
      return await fn(ctl.signal);
    } finally {
      clearInterval(timer);
      await this.redis.zrem(this.key, id).catch((err) => this.onWarning('returning session slot failed', err));
    }
  }
}

export interface Enrolment {
  studentNumber: string;
  courseCode: string;
}

export async function pushEnrolments(pool: SessionPool, baseUrl: string, rows: Enrolment[]): Promise<number> {
  return pool.withSession(async (signal) => {
    let sent = 0;
    for (const row of rows) {
      const url = `${baseUrl}/enrolments/${encodeURIComponent(row.studentNumber)}/${encodeURIComponent(row.courseCode)}`;
      const res = await fetch(url, { method: 'PUT', signal });
      if (!res.ok) throw new Error(`SIS answered ${res.status} for ${row.studentNumber}`);
      sent += 1;
    }
    return sent;
  });
}
