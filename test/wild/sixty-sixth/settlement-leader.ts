import { randomUUID } from 'node:crypto';
import os from 'node:os';
import Redis from 'ioredis';

const LEADER_KEY = process.env.SETTLEMENT_LEADER_KEY ?? 'settlement:leader';
const LEASE_MS = 15_000;
const RENEW_EVERY_MS = 5_000;

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

export interface Settlement {
  id: string;
  merchantId: string;
  amountCents: number;
}

export interface SettlementQueue {
  nextDue(): Promise<Settlement | null>;
  markPaid(id: string, bankRef: string): Promise<void>;
  markFailed(id: string, reason: string): Promise<void>;
}

export interface BankGateway {
  transfer(s: Settlement): Promise<{ reference: string }>;
}

export interface Logger {
  info(msg: string, meta?: Record<string, unknown>): void;
  warn(msg: string, meta?: Record<string, unknown>): void;
  error(msg: string, meta?: Record<string, unknown>): void;
}

export function createRedis(): Redis {
  return new Redis({
    host: process.env.REDIS_HOST ?? 'localhost',
    port: Number(process.env.REDIS_PORT ?? 6379),
    maxRetriesPerRequest: 2,
    commandTimeout: 1_000,
  });
}

/** Pays out merchants. The bank wants one submitting process, hence the leader. */
export class SettlementLeader {
  private readonly id = `${os.hostname()}:${process.pid}:${randomUUID()}`;
  private leader = false;
  private timer?: NodeJS.Timeout;
  private stopped = false;
  private ticking?: Promise<void>;
  private paying?: Promise<void>;

  constructor(
    private readonly redis: Redis,
    private readonly queue: SettlementQueue,
    private readonly bank: BankGateway,
    private readonly log: Logger,
  ) {
    this.redis.on('error', (err) => this.log.warn('redis', { err: err.message }));
  }

  start(): void {
    const tick = () => {
      this.ticking = this.heartbeat().then(() => {
        if (!this.stopped) this.timer = setTimeout(tick, RENEW_EVERY_MS);
      });
    };
    tick();
  }

  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    await this.ticking;
    this.leader = false;
    await this.paying;
    await this.redis.eval(RESIGN, 1, LEADER_KEY, this.id).catch(() => undefined);
  }

  isLeader(): boolean {
    return this.leader;
  }

  private async heartbeat(): Promise<void> {
    try {
      if (this.leader) {
        const renewed = await this.redis.eval(RENEW, 1, LEADER_KEY, this.id, LEASE_MS);
        if (renewed !== 1) {
          this.log.warn('leadership lost', { id: this.id });
          this.leader = false;
        }
        return;
      }
      if (this.paying) return; // the last payout of an earlier term is still on its way
      const reply = await this.redis.set(LEADER_KEY, this.id, 'PX', LEASE_MS, 'NX');
      if (reply === 'OK') {
        this.log.info('became leader', { id: this.id });
        this.leader = true;
        this.paying = this.payLoop().finally(() => {
          this.paying = undefined;
        });
      }
    } catch (err) {
      this.log.warn('heartbeat failed, next try in a moment', { err: (err as Error).message });
    }
  }

  private async payLoop(): Promise<void> {
    while (this.leader) {
      let settlement: Settlement | null = null;
      try {
        settlement = await this.queue.nextDue();
      } catch (err) {
        this.log.error('queue', { err: (err as Error).message });
      }
      if (!settlement) {
        await new Promise((r) => setTimeout(r, 2_000));
        continue;
      }
      if (!this.leader) break;
      try {
        const { reference } = await this.bank.transfer(settlement);
        await this.queue.markPaid(settlement.id, reference);
        this.log.info('settled', { id: settlement.id, reference });
      } catch (err) {
        this.log.error('settlement failed', { id: settlement.id, err: (err as Error).message });
        await this.queue.markFailed(settlement.id, (err as Error).message).catch(() => undefined);
      }
    }
  }
}
