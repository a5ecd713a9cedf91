import { EventEmitter } from 'node:events';
import { hostname } from 'node:os';
import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { createClient } from 'redis';

export interface MeterBus {
  /** Reading resets the meter's pulse counter. */
  readAndReset(meter: string): Promise<number>;
  meters(): string[];
}

const RENEW = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`;
const RESIGN = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

export class GatewayElection extends EventEmitter {
  private readonly id = `${hostname()}:${randomUUID()}`;
  private readonly halt = new AbortController();
  private loop: Promise<void> | null = null;
  private leading = false;

  constructor(
    private readonly redis: ReturnType<typeof createClient>,
    private readonly key: string,
    private readonly ttlMs = 30_000,
  ) {
    super();
  }

  get isLeader(): boolean {
    return this.leading;
  }

  start(): void {
    this.loop ??= this.run();
  }

  async stop(): Promise<void> {
    this.halt.abort();
    await this.loop;
    if (!this.leading) return;
    this.become(false);
    await this.redis.eval(RESIGN, { keys: [this.key], arguments: [this.id] });
  }

  private async run(): Promise<void> {
    while (!this.halt.signal.aborted) {
      try {
        this.become(this.leading ? await this.renew() : await this.campaign());
      } catch (err) {
        this.emit('warning', err);
      }
      await wait(this.ttlMs / 5, undefined, { signal: this.halt.signal }).catch(() => undefined);
    }
  }

  private async campaign(): Promise<boolean> {
    return (await this.redis.set(this.key, this.id, { NX: true, PX: this.ttlMs })) === 'OK';
  }

  private async renew(): Promise<boolean> {
    const reply = await this.redis.eval(RENEW, { keys: [this.key], arguments: [this.id, String(this.ttlMs)] });
    return reply === 1;
  }

  private become(leading: boolean): void {
    if (leading === this.leading) return;
    this.leading = leading;
    this.emit(leading ? 'elected' : 'deposed');
  }
}

/** Two or three gateways hang on the same meter bus; the elected one reads it. */
export async function runGateway(bus: MeterBus, ingestUrl: string, stop: AbortSignal): Promise<void> {
  const redis = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
  redis.on('error', (e) => console.error('redis:', e.message));
  await redis.connect();

  const election = new GatewayElection(redis as ReturnType<typeof createClient>, 'meters:gateway:leader');
  election.on('warning', (e) => console.warn('election:', e.message));
  election.on('elected', () => console.log('reading the bus'));
  election.on('deposed', () => console.log('standing by'));
  election.start();

  try {
    while (!stop.aborted) {
      for (const meter of bus.meters()) {
        if (stop.aborted || !election.isLeader) break;
        const pulses = await bus.readAndReset(meter);
        const res = await fetch(ingestUrl, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ meter, pulses, at: Date.now() }),
          signal: AbortSignal.timeout(4_000),
        }).catch((e) => e as Error);
        if (res instanceof Error || !res.ok) {
          await redis.rPush('meters:unsent', JSON.stringify({ meter, pulses })).catch((e) => {
            console.error(`meter ${meter}: ${pulses} pulses not recorded`, e.message);
          });
        }
      }
      await wait(10_000, undefined, { signal: stop }).catch(() => undefined);
    }
  } finally {
    await election.stop().catch((e) => console.warn('election: resigning failed,', e.message));
    await redis.quit();
  }
}
