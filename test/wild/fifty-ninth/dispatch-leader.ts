import { EventEmitter } from 'node:events';
import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';
import pino from 'pino';
import { DispatchLoop } from './dispatch-loop';
import { config } from './config';

const log = pino({ name: 'dispatch-leader' });

type RedisClient = ReturnType<typeof createClient>;

interface Options {
  key: string;
  ttlMs: number;
  intervalMs: number;
}

const RENEW = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;

const RESIGN = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

/**
 * Emits 'elected' when this node becomes the leader and 'deposed' when it is not any more.
 * There must never be two nodes sending setpoints to the same battery park.
 */
export class LeaderElection extends EventEmitter {
  private term: string | null = null;
  private timer?: NodeJS.Timeout;
  private busy = false;

  constructor(private readonly redis: RedisClient, private readonly opts: Options) {
    super();
  }

  get isLeader(): boolean {
    return this.term !== null;
  }

  start(): void {
    this.timer = setInterval(() => void this.tick(), this.opts.intervalMs);
    void this.tick();
  }

  private async tick(): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    try {
      if (this.term) await this.renew(this.term);
      else await this.campaign();
    } catch (err) {
      // A hiccup of Redis must not stop the park; we go on and try again with the next tick.
      log.warn({ err, leader: this.isLeader }, 'election tick failed');
    } finally {
      this.busy = false;
    }
  }

  private async campaign(): Promise<void> {
    const candidate = randomUUID();
    const reply = await this.redis.set(this.opts.key, candidate, { NX: true, PX: this.opts.ttlMs });
    if (reply !== 'OK') return;
    this.term = candidate;
    log.info({ term: candidate }, 'elected');
    this.emit('elected', candidate);
  }

  private async renew(term: string): Promise<void> {
    const ok = await this.redis.eval(RENEW, {
      keys: [this.opts.key],
      arguments: [term, String(this.opts.ttlMs)],
    });
    if (ok !== 1) {
      this.term = null;
      log.warn({ term }, 'deposed');
      this.emit('deposed', term);
    }
  }

  async stop(): Promise<void> {
    clearInterval(this.timer);
    const term = this.term;
    if (!term) return;
    this.term = null;
    this.emit('deposed', term);
    await this.redis
      .eval(RESIGN, { keys: [this.opts.key], arguments: [term] })
      .catch((err) => log.warn({ err }, 'resign failed'));
  }
}

export async function main() {
  const redis = createClient({ url: config.redisUrl });
  redis.on('error', (err) => log.error({ err }, 'redis'));
  await redis.connect();

  const loop = new DispatchLoop(config.park);
  const election = new LeaderElection(redis, {
    key: `leader:dispatch:${config.park.id}`,
    ttlMs: 15_000,
    intervalMs: 4_000,
  });
  election.on('elected', () => loop.start());
  election.on('deposed', () => loop.haltImmediately());
  election.start();

  process.once('SIGTERM', async () => {
    await election.stop();
    await redis.quit();
  });
}
