import type Redis from 'ioredis';
import Redlock, { type Lock } from 'redlock5';

type Claim = { id: string; state: 'assessed' | 'paid' | 'rejected'; iban: string; amountCents: number };

interface Ports {
  claims: {
    get(id: string): Promise<Claim>;
    markPaid(id: string, paymentRef: string): Promise<void>;
  };
  /** sanctions screening, up to 20 s, gives up after that */
  screening: { screen(iban: string): Promise<'clear' | 'hit'> };
  /** HTTP client with a 6 s timeout; the bank ignores repeated idempotency keys */
  bank: { transfer(p: { iban: string; amountCents: number; idempotencyKey: string }): Promise<{ ref: string }> };
  logger: { info(msg: string): void; warn(msg: string, err: unknown): void };
}

export type PayoutResult =
  | { kind: 'paid'; ref: string }
  | { kind: 'not-payable'; state: Claim['state'] }
  | { kind: 'held-for-review' };

export class PayoutService {
  private static readonly SCREENING_LOCK_MS = 30_000;
  private static readonly TRANSFER_LOCK_MS = 20_000;

  private readonly redlock: Redlock;

  constructor(redisNodes: Redis[], private readonly ports: Ports) {
    this.redlock = new Redlock(redisNodes, { retryCount: 10, retryDelay: 300, retryJitter: 150 });
    this.redlock.on('error', (err: unknown) => this.ports.logger.warn('redlock', err));
  }

  async payOut(claimId: string): Promise<PayoutResult> {
    const { claims, screening, bank, logger } = this.ports;

    // throws ExecutionError when the claim stays locked; the caller shows "try again"
    let lock: Lock = await this.redlock.acquire([`claims:${claimId}:payout`], PayoutService.SCREENING_LOCK_MS);

    try {
      const claim = await claims.get(claimId);
      if (claim.state !== 'assessed') return { kind: 'not-payable', state: claim.state };

      if ((await screening.screen(claim.iban)) === 'hit') {
        logger.info(`claim ${claimId} held for review`);
        return { kind: 'held-for-review' };
      }

      // fresh time for the transfer; an expired lock makes this throw
      lock = await lock.extend(PayoutService.TRANSFER_LOCK_MS);

      const { ref } = await bank.transfer({
        iban: claim.iban,
        amountCents: claim.amountCents,
        idempotencyKey: `payout-${claimId}`,
      });
      await claims.markPaid(claimId, ref);
      logger.info(`claim ${claimId} paid, ${ref}`);
      return { kind: 'paid', ref };
    } finally {
      await lock.release().catch((err: unknown) => logger.warn(`release of claim ${claimId}`, err));
    }
  }
}
