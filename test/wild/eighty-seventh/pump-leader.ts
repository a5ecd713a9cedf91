/**
 * Elects the one controller that drives the pumps of an irrigation district.
 *
 * All controllers run the same program and can reach the pumps directly; the
 * leader alone may set a pump's rate.
 */
import { randomUUID } from 'node:crypto';
import { EventEmitter } from 'node:events';
import pino from 'pino';
import { createClient, type RedisClientType } from 'redis';

const RENEW = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('pexpire', KEYS[1], ARGV[2])`;

const RESIGN = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('del', KEYS[1])`;

export interface ElectionOptions {
  url: string;
  district: string;
  /** Length of a term, in ms; a term is renewed three times before it would end. */
  termMs?: number;
}

interface ElectionEvents {
  elected: [];
  deposed: [reason: string];
}

export class PumpElection extends EventEmitter<ElectionEvents> {
  private readonly log = pino({ name: 'pump-election' });
  private readonly id = randomUUID();
  private readonly key: string;
  private readonly termMs: number;
  private readonly redis: RedisClientType;
  private leading = false;
  private stopped = false;
  private timer?: NodeJS.Timeout;

  constructor({ url, district, termMs = 9_000 }: ElectionOptions) {
    super();
    this.key = `pumps:${district}:leader`;
    this.termMs = termMs;
    this.redis = createClient({
      url,
      disableOfflineQueue: true,
      socket: { connectTimeout: 2_000, reconnectStrategy: (tries) => Math.min(100 * tries, 2_000) },
    });
    this.redis.on('error', (err) => this.log.warn({ err }, 'redis connection'));
  }

  /** Whether this controller may drive the pumps now. */
  get isLeader(): boolean {
    return this.leading;
  }

  async start(): Promise<void> {
    await this.redis.connect();
    await this.beat();
  }

  /** Leaves the election and hands the pumps over at once. */
  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    if (this.leading) {
      this.depose('stopped');
      await this.redis.eval(RESIGN, { keys: [this.key], arguments: [this.id] }).catch(() => 0);
    }
    await this.redis.disconnect();
  }

  /** One heartbeat; the next is planned only after this one has ended. */
  private async beat(): Promise<void> {
    try {
      if (this.leading) await this.renew();
      else await this.campaign();
    } catch (err) {
      // Short interruptions are common in the field: the next beat will tell.
      this.log.warn({ err }, 'heartbeat failed');
    } finally {
      if (!this.stopped) this.timer = setTimeout(() => void this.beat(), this.termMs / 4);
    }
  }

  private async campaign(): Promise<void> {
    const reply = await this.redis.set(this.key, this.id, { NX: true, PX: this.termMs });
    if (reply !== 'OK' || this.stopped) return;
    this.leading = true;
    this.log.info('elected');
    this.emit('elected');
  }

  private async renew(): Promise<void> {
    const kept = await this.redis.eval(RENEW, { keys: [this.key], arguments: [this.id, String(this.termMs)] });
    if (kept !== 1) this.depose('another controller took over');
  }

  private depose(reason: string): void {
    if (!this.leading) return;
    this.leading = false;
    this.log.info({ reason }, 'deposed');
    this.emit('deposed', reason);
  }
}

/** Sets the rate of each pump, once a second, while this controller leads. */
export function drivePumps(election: PumpElection, setRates: () => Promise<void>): NodeJS.Timeout {
  let busy = false;
  return setInterval(async () => {
    if (!election.isLeader || busy) return;
    busy = true;
    await setRates().catch((err) => console.error('pumps', err)).finally(() => { busy = false; });
  }, 1_000);
}
