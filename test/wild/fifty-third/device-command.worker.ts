import { randomUUID } from 'node:crypto';
import { DelayedError, Worker, type Job } from 'bullmq';
import Redis from 'ioredis';
import axios from 'axios';
import pino from 'pino';
import { config } from '../config';

const log = pino({ name: 'device-commands' });

const LOCK_MS = 10_000;
const BEAT_MS = 3_000;

const RELEASE_LUA = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`;

interface CommandJob {
  deviceId: string;
  steps: Array<{ opcode: string; args: Record<string, unknown> }>;
}

class DeviceSession {
  private readonly token = randomUUID();
  private readonly abort = new AbortController();
  private timer?: NodeJS.Timeout;

  constructor(
    private readonly redis: Redis,
    private readonly key: string,
  ) {}

  get signal(): AbortSignal {
    return this.abort.signal;
  }

  async open(): Promise<boolean> {
    const reply = await this.redis.set(this.key, this.token, 'PX', LOCK_MS, 'NX');
    if (reply !== 'OK') return false;
    this.timer = setInterval(() => void this.beat(), BEAT_MS);
    return true;
  }

  private async beat(): Promise<void> {
    try {
      const kept = await this.redis.pexpire(this.key, LOCK_MS);
      if (kept === 0) this.lose('lock has expired');
    } catch (err) {
      log.warn({ err, key: this.key }, 'heartbeat failed');
      this.lose('redis is not reachable');
    }
  }

  private lose(reason: string): void {
    clearInterval(this.timer);
    this.abort.abort(new Error(reason));
  }

  async close(): Promise<void> {
    clearInterval(this.timer);
    await this.redis
      .eval(RELEASE_LUA, 1, this.key, this.token)
      .catch((err) => log.warn({ err, key: this.key }, 'release failed'));
  }
}

const redis = new Redis(config.redisUrl, { commandTimeout: 2_000 });

export const worker = new Worker<CommandJob>(
  'device-commands',
  async (job: Job<CommandJob>, jobToken?: string) => {
    const { deviceId, steps } = job.data;
    const session = new DeviceSession(redis, `device:${deviceId}:session`);
    if (!(await session.open())) {
      await job.moveToDelayed(Date.now() + 5_000, jobToken);
      throw new DelayedError();
    }
    try {
      for (const [n, step] of steps.entries()) {
        session.signal.throwIfAborted();
        await axios.post(`${config.gatewayUrl}/devices/${deviceId}/${step.opcode}`, step.args, {
          signal: session.signal,
        });
        await job.updateProgress(Math.round(((n + 1) / steps.length) * 100));
      }
      log.info({ deviceId, steps: steps.length }, 'commands sent');
    } finally {
      await session.close();
    }
  },
  { connection: { url: config.redisUrl }, concurrency: 20 },
);
