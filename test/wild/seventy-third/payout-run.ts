import Redis from 'ioredis';
import Redlock from 'redlock4';
import { DateTime, Duration } from 'luxon';
import { PayoutRepository } from './payout-repository';
import { BankGateway } from './bank-gateway';
import { log } from './logger';

const LOCK_TTL = Duration.fromObject({ minutes: 2 });

export class PayoutRun {
  private readonly redlock: Redlock;

  constructor(
    redis: Redis,
    private readonly payouts: PayoutRepository,
    private readonly bank: BankGateway,
  ) {
    this.redlock = new Redlock([redis], {
      driftFactor: 0.01,
      retryCount: 3,
      retryDelay: 500,
      retryJitter: 200,
    });
    this.redlock.on('clientError', (err: Error) => log.error('redlock client error', { err }));
  }

  /**
   * Triggered by the scheduler on every node at 06:00 and by the "run now"
   * button in the back office.
   */
  async execute(day: DateTime): Promise<number> {
    const resource = `locks:payout-run:${day.toISODate()}`;

    let lock: Redlock.Lock;
    try {
      lock = await this.redlock.lock(resource, LOCK_TTL.toMillis());
    } catch (err) {
      if ((err as Error).name !== 'LockError') throw err;
      log.info('payout run is in progress elsewhere', { resource });
      return 0;
    }

    let sent = 0;
    try {
      const due = await this.payouts.findDue(day);
      log.info('payout run started', { resource, count: due.length });

      for (const payout of due) {
        const receipt = await this.bank.transfer({
          iban: payout.iban,
          amount: payout.amount,
          reference: `Payout ${payout.number}`,
        });
        await this.payouts.markSent(payout.id, receipt.transactionId);
        sent++;
      }

      log.info('payout run finished', { resource, sent });
      return sent;
    } finally {
      await lock.unlock().catch((err: Error) => {
        log.warn('could not unlock payout run', { resource, err });
      });
    }
  }
}
