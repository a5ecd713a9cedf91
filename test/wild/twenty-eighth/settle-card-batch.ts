import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

/**
 * Settles the open card captures of one merchant with the acquirer.
 *
 * Several API pods and the nightly scheduler may ask for the same merchant, and a
 * big merchant takes anything from seconds to a quarter of an hour, so the lock is a
 * short lease that is kept alive for as long as pages are being submitted.
 */

const LEASE_MS = 30_000;
const RENEW_EVERY_MS = 5_000;
/** Give up this long before the lease could run out on the server. */
const SAFETY_MS = 10_000;

const EXTEND = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export interface Capture {
  id: string;
  amountMinor: number;
  currency: string;
}

export interface CaptureStore {
  nextOpenPage(merchantId: string, size: number): Promise<Capture[]>;
  markSettled(ids: string[], settlementRef: string): Promise<void>;
}

export interface AcquirerGateway {
  /** The acquirer books a capture id once; a repeated one is confirmed with the first reference. */
  submit(merchantId: string, page: Capture[], signal: AbortSignal): Promise<string>;
}

export interface Logger {
  log(message: string): void;
  warn(message: string): void;
}

export class SettlementBusyError extends Error {
  constructor(merchantId: string) {
    super(`settlement of ${merchantId} is already running`);
  }
}

export class SettlementLeaseLostError extends Error {}

export class SettlementService {
  constructor(
    private readonly redis: Redis,
    private readonly captures: CaptureStore,
    private readonly acquirer: AcquirerGateway,
    private readonly logger: Logger,
  ) {}

  async settleMerchant(merchantId: string): Promise<number> {
    return this.withMerchantLease(merchantId, async (signal) => {
      let settled = 0;
      for (;;) {
        signal.throwIfAborted();
        const page = await this.captures.nextOpenPage(merchantId, 200);
        if (page.length === 0) break;

        signal.throwIfAborted();
        const ref = await this.acquirer.submit(merchantId, page, signal);

        await this.captures.markSettled(page.map((c) => c.id), ref);
        settled += page.length;
      }
      this.logger.log(`settled ${settled} captures for ${merchantId}`);
      return settled;
    });
  }

  private async withMerchantLease<T>(merchantId: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const key = `settlement:lease:${merchantId}`;
    const token = randomUUID();

    let validUntil = performance.now() + LEASE_MS;
    const reply = await this.redis.set(key, token, 'PX', LEASE_MS, 'NX');
    if (reply !== 'OK') throw new SettlementBusyError(merchantId);

    const lost = new AbortController();
    const renewal = setInterval(() => {
      if (performance.now() > validUntil - SAFETY_MS) {
        clearInterval(renewal);
        lost.abort(new SettlementLeaseLostError(`lease of ${merchantId} not renewed in time`));
        return;
      }
      const sentAt = performance.now();
      this.redis.eval(EXTEND, 1, key, token, LEASE_MS).then(
        (extended) => {
          if (extended === 1) {
            validUntil = sentAt + LEASE_MS;
          } else {
            clearInterval(renewal);
            lost.abort(new SettlementLeaseLostError(`lease of ${merchantId} was taken over`));
          }
        },
        (err: Error) => this.logger.warn(`renewal of ${key} failed, trying again: ${err.message}`),
      );
    }, RENEW_EVERY_MS);

    try {
      return await work(lost.signal);
    } finally {
      clearInterval(renewal);
      await this.redis.eval(RELEASE, 1, key, token).catch((err: Error) => {
        this.logger.warn(`release of ${key} failed, it expires by itself: ${err.message}`);
      });
    }
  }
}
