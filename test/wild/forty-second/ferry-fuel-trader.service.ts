import { Inject, Injectable, Logger, OnApplicationBootstrap, OnApplicationShutdown } from '@nestjs/common';
import { randomUUID } from 'node:crypto';
import type Redis from 'ioredis';
import { FuelMarketClient } from '@ferryline/fuel-market';

const LEADER_KEY = 'fuel-trader:leader';
const LEASE_MS = 15_000;
const TICK_MS = 5_000;

const RENEW = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

const RESIGN = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

/**
 * Buys marine diesel when the spot price is under the limit of the day.
 * Runs in every api pod, only the leader places orders.
 */
@Injectable()
export class FuelTraderService implements OnApplicationBootstrap, OnApplicationShutdown {
  private readonly log = new Logger(FuelTraderService.name);
  private readonly id = randomUUID();
  private leader = false;
  private timer?: NodeJS.Timeout;
  private busy = false;

  constructor(
    @Inject('REDIS') private readonly redis: Redis,
    private readonly market: FuelMarketClient,
  ) {}

  onApplicationBootstrap(): void {
    this.timer = setInterval(() => void this.tick(), TICK_MS);
  }

  async onApplicationShutdown(): Promise<void> {
    clearInterval(this.timer);
    if (this.leader) {
      this.leader = false;
      await this.redis.eval(RESIGN, 1, LEADER_KEY, this.id);
    }
  }

  private async tick(): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    try {
      if (this.leader) {
        await this.redis.eval(RENEW, 1, LEADER_KEY, this.id, LEASE_MS);
      } else {
        const res = await this.redis.set(LEADER_KEY, this.id, 'PX', LEASE_MS, 'NX');
        this.leader = res === 'OK';
        if (this.leader) this.log.log(`pod ${this.id} is trading now`);
      }
      if (this.leader) await this.trade();
    } catch (err) {
      this.log.error(`tick failed: ${(err as Error).message}`);
    } finally {
      this.busy = false;
    }
  }

  private async trade(): Promise<void> {
    // client has a 2s timeout per call
    const [quote, target] = await Promise.all([this.market.spot('MGO'), this.market.dailyTarget('MGO')]);
    if (quote.pricePerTonne > target.limit || target.remainingTonnes <= 0) return;

    const tonnes = Math.min(target.remainingTonnes, 25);
    const order = await this.market.buy({ product: 'MGO', tonnes, price: quote.pricePerTonne });
    this.log.log(`bought ${tonnes} t at ${quote.pricePerTonne}, order ${order.id}`);
  }
}
