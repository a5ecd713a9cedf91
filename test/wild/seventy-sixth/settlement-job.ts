import Redlock, { type Lock } from 'redlock4';
import Redis from 'ioredis';
import { lockMetrics } from '../metrics';
import { Ledger, type ClearingFile } from './ledger';

const nodes = (process.env.LOCK_REDIS_HOSTS ?? 'localhost').split(',');

export const redlock = new Redlock(
  nodes.map((host) => new Redis({ host, maxRetriesPerRequest: 2 })),
  { driftFactor: 0.01, retryCount: 3, retryDelay: 250, retryJitter: 150 },
);

redlock.on('clientError', (err: Error) => console.error('lock node', err.message));

interface ExclusiveOptions {
  ttl: number;
  /** renew this often, default: a third of the ttl */
  every?: number;
}

type AsyncMethod = (...args: any[]) => Promise<unknown>;

/**
 * Method decorator: only one instance in the cluster runs the method at a time for one resource.
 * The lock is kept alive as long as the method runs.
 */
export function Exclusive(resourceOf: (...args: any[]) => string, { ttl, every = ttl / 3 }: ExclusiveOptions) {
  return function (_target: object, name: string, descriptor: TypedPropertyDescriptor<any>) {
    const original: AsyncMethod = descriptor.value;

    descriptor.value = async function (...args: any[]) {
      const resource = `exclusive:${resourceOf(...args)}`;
      const lock: Lock = await redlock.lock(resource, ttl);
      lockMetrics.acquired.inc({ method: name });

      const keepAlive = setInterval(() => {
        lock.extend(ttl).catch((err: Error) => {
          lockMetrics.extendFailed.inc({ method: name });
          console.warn(`${resource}: extend failed, will try again`, err.message);
        });
      }, every);

      try {
        return await original.apply(this, args);
      } finally {
        clearInterval(keepAlive);
        await lock.unlock().catch((err: Error) => console.warn(`${resource}: unlock failed`, err.message));
      }
    };
    return descriptor;
  };
}

export class SettlementJob {
  constructor(private readonly ledger: Ledger) {}

  @Exclusive((file: ClearingFile) => `settlement:${file.scheme}:${file.businessDay}`, { ttl: 15_000 })
  async settle(file: ClearingFile): Promise<number> {
    const from = await this.ledger.position(file); // lines posted by an earlier, interrupted run
    for (let i = from; i < file.lines.length; i++) {
      const { debtor, creditor, amount } = file.lines[i];
      // one transaction: INSERT debit, INSERT credit, UPDATE files SET position = i + 1
      await this.ledger.post(file, i, { debtor, creditor, amount });
    }
    return file.lines.length - from;
  }
}
