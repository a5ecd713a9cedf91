import { ConflictException, Inject, Injectable, Logger, ServiceUnavailableException } from '@nestjs/common';
import axios, { type AxiosInstance } from 'axios';
import dayjs from 'dayjs';
import type Redis from 'ioredis';
import type { Knex } from 'knex';
import { randomUUID } from 'node:crypto';
import Redlock, { type Lock } from 'redlock4';

export interface HoldRequest {
  eventId: string;
  section: string;
  seatIds: string[];
  customerId: string;
}

export interface Hold {
  id: string;
  seatIds: string[];
  totalCents: number;
  expiresAt: string;
}

@Injectable()
export class SeatHoldService {
  private static readonly LOCK_MS = 20_000;
  private static readonly HOLD_MINUTES = 8;

  private readonly logger = new Logger(SeatHoldService.name);
  private readonly redlock: Redlock;
  private readonly pricing: AxiosInstance;

  constructor(
    @Inject('REDIS') redis: Redis,
    @Inject('KNEX') private readonly knex: Knex,
    @Inject('PRICING_URL') pricingUrl: string,
  ) {
    this.redlock = new Redlock([redis], {
      driftFactor: 0.01,
      retryCount: 12,
      retryDelay: 200,
      retryJitter: 100,
    });
    this.redlock.on('clientError', (err) => this.logger.error(err));
    this.pricing = axios.create({ baseURL: pricingUrl, timeout: 12_000 });
  }

  async hold(req: HoldRequest): Promise<Hold> {
    let lock: Lock;
    try {
      lock = await this.redlock.lock(`seats:${req.eventId}:${req.section}`, SeatHoldService.LOCK_MS);
    } catch (err) {
      this.logger.warn(`section ${req.section} of ${req.eventId} busy: ${(err as Error).message}`);
      throw new ServiceUnavailableException('section is busy, please retry');
    }

    try {
      const free = await this.freeSeats(req);
      if (free.length !== req.seatIds.length) throw new ConflictException('seats no longer available');
      await this.assertNoOrphanSeat(req);

      // Dynamic pricing depends on what is left in the section, so it is asked under the lock.
      const { data: quote } = await this.pricing.post<{ totalCents: number }>('/quotes', {
        eventId: req.eventId,
        section: req.section,
        seatIds: req.seatIds,
      });

      // Rejects when the key is not ours any more.
      lock = await lock.extend(SeatHoldService.LOCK_MS);
      return await this.store(req, quote.totalCents);
    } finally {
      await lock.unlock().catch((err: Error) => this.logger.warn(`unlock: ${err.message}`));
    }
  }

  private freeSeats(req: HoldRequest): Promise<Array<{ id: string }>> {
    return this.knex('seats')
      .select('id')
      .whereIn('id', req.seatIds)
      .andWhere({ event_id: req.eventId, section: req.section })
      .andWhere((q) => q.whereNull('hold_id').orWhere('hold_expires_at', '<', this.knex.fn.now()))
      .timeout(3_000);
  }

  /** Nice to have for the box office; whether a seat is free is settled in store(). */
  private async assertNoOrphanSeat(req: HoldRequest): Promise<void> {
    const orphan = await this.knex('seat_gaps')
      .where({ event_id: req.eventId, section: req.section, width: 1 })
      .whereIn('left_seat_id', req.seatIds)
      .first('left_seat_id')
      .timeout(3_000);
    if (orphan) throw new ConflictException('selection would leave a single seat');
  }

  private store(req: HoldRequest, totalCents: number): Promise<Hold> {
    const id = randomUUID();
    const expiresAt = dayjs().add(SeatHoldService.HOLD_MINUTES, 'minute').toISOString();
    return this.knex.transaction(async (trx) => {
      await trx('holds').insert({ id, customer_id: req.customerId, event_id: req.eventId, total_cents: totalCents, expires_at: expiresAt });
      const taken = await trx('seats')
        .whereIn('id', req.seatIds)
        .andWhere((q) => q.whereNull('hold_id').orWhere('hold_expires_at', '<', trx.fn.now()))
        .update({ hold_id: id, hold_expires_at: expiresAt });
      if (taken !== req.seatIds.length) throw new ConflictException('seats no longer available');
      return { id, seatIds: req.seatIds, totalCents, expiresAt };
    });
  }
}
