import { ConflictException, Inject, Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { IsNull, Repository } from 'typeorm';
import Redlock, { Lock } from 'redlock5';
import { Seat } from './seat.entity';

@Injectable()
export class SeatHoldService {
  private current?: Lock;

  constructor(
    @Inject('REDLOCK') private readonly redlock: Redlock,
    @InjectRepository(Seat) private readonly seats: Repository<Seat>,
  ) {}

  private async enter(showId: string, row: string) {
    try {
      this.current = await this.redlock.acquire([`show:${showId}:row:${row}`], 15_000);
    } catch {
      throw new ConflictException('Other visitors are choosing seats in this row');
    }
  }

  private async leave() {
    if (!this.current) return;
    const lock = this.current;
    this.current = undefined;
    await lock.release().catch(() => undefined);
  }

  async hold(showId: string, row: string, numbers: number[], cartId: string) {
    await this.enter(showId, row);
    try {
      const free = await this.seats.find({ where: { showId, row, cartId: IsNull() } });
      const wanted = free.filter((s) => numbers.includes(s.number));
      if (wanted.length !== numbers.length) throw new ConflictException('Seat already taken');

      const left = free.filter((s) => !numbers.includes(s.number)).map((s) => s.number);
      if (left.some((n) => !left.includes(n - 1) && !left.includes(n + 1))) {
        throw new ConflictException('Please do not leave a single seat');
      }

      for (const seat of wanted) seat.cartId = cartId;
      return await this.seats.save(wanted);
    } finally {
      await this.leave();
    }
  }
}
