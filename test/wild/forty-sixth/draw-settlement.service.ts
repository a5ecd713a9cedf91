import { randomUUID } from 'node:crypto';
import { ConflictException, Inject, Injectable, Logger } from '@nestjs/common';
import type { RedisClientType } from 'redis';
import Stripe from 'stripe';
import { PrismaService } from './prisma.service';

const TTL_MS = 30_000;
const RENEW = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`;
const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

class Lease {
  private timer?: NodeJS.Timeout;
  private lost = false;

  constructor(
    private readonly redis: RedisClientType,
    private readonly key: string,
    private readonly token: string,
    private until: number,
  ) {
    this.timer = setInterval(() => void this.renew(), TTL_MS / 3);
  }

  private async renew() {
    const sentAt = performance.now();
    try {
      const ok = await this.redis.eval(RENEW, { keys: [this.key], arguments: [this.token, String(TTL_MS)] });
      if (ok === 1) this.until = Math.max(this.until, sentAt + TTL_MS);
      else this.lost = true;
    } catch {
      // not confirmed: `until` stays, assertHeld() stops the work in time
    }
  }

  assertHeld(neededMs: number) {
    if (this.lost || performance.now() + neededMs > this.until) {
      throw new ConflictException('settlement lock lost, run again');
    }
  }

  async release() {
    clearInterval(this.timer);
    await this.redis.eval(RELEASE, { keys: [this.key], arguments: [this.token] });
  }
}

@Injectable()
export class DrawSettlementService {
  private readonly log = new Logger(DrawSettlementService.name);
  private readonly stripe = new Stripe(process.env.STRIPE_KEY!, { timeout: 4_000, maxNetworkRetries: 1 });

  constructor(
    @Inject('REDIS') private readonly redis: RedisClientType,
    private readonly prisma: PrismaService,
  ) {}

  private async acquire(drawId: string): Promise<Lease | null> {
    const key = `lottery:settle:${drawId}`;
    const token = randomUUID();
    const sentAt = performance.now();
    const reply = await this.redis.set(key, token, { NX: true, PX: TTL_MS });
    return reply === 'OK' ? new Lease(this.redis, key, token, sentAt + TTL_MS) : null;
  }

  /** Pays every winner once and closes the draw. Broken-off runs are repeated within the hour. */
  async settle(drawId: string): Promise<{ paid: number }> {
    const lease = await this.acquire(drawId);
    if (!lease) throw new ConflictException('draw is being settled');
    try {
      const draw = await this.prisma.draw.findUniqueOrThrow({ where: { id: drawId } });
      if (draw.status === 'SETTLED') return { paid: 0 };
      if (draw.status !== 'CLOSED') throw new ConflictException('draw is still open');

      const winners = await this.prisma.ticket.findMany({
        where: { drawId, prizeCents: { gt: 0 }, paidAt: null },
        include: { retailer: true },
      });
      for (const t of winners) {
        lease.assertHeld(10_000);
        const transfer = await this.stripe.transfers.create(
          { amount: t.prizeCents, currency: 'eur', destination: t.retailer.stripeAccount },
          { idempotencyKey: `draw-${drawId}-ticket-${t.id}` },
        );
        await this.prisma.ticket.updateMany({
          where: { id: t.id, paidAt: null },
          data: { paidAt: new Date(), transferId: transfer.id },
        });
      }
      lease.assertHeld(5_000);
      const done = await this.prisma.draw.updateMany({
        where: { id: drawId, status: 'CLOSED', version: draw.version },
        data: { status: 'SETTLED', version: { increment: 1 } },
      });
      if (done.count !== 1) throw new ConflictException('draw changed while settling');
      return { paid: winners.length };
    } finally {
      await lease.release().catch((err) => this.log.warn(`release: ${err.message}`));
    }
  }
}
