import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';

// Edge cron, every five minutes. The platform may start a run twice, hence the guard.

const redis = Redis.fromEnv();

const config = {
  lockName: process.env.RECEIPTS_LOCK_NAME ?? 'receipts:run',
  lockTtl: Number(process.env.RECEIPTS_LOCK_SECONDS ?? 240),
  perRun: Number(process.env.RECEIPTS_PER_RUN ?? 50),
};

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0
`;

export interface Donation {
  id: string;
  donorEmail: string;
  amount: number;
  currency: string;
}

export interface DonationStore {
  withoutReceipt(limit: number): Promise<Donation[]>;
  nextReceiptNumber(): Promise<number>;
  saveReceipt(donationId: string, receiptNumber: number): Promise<void>;
}

export interface Mailer {
  send(mail: { to: string; subject: string; text: string }): Promise<void>;
}

async function onlyOnce<T>(work: () => Promise<T>): Promise<T | 'skipped'> {
  const token = randomUUID();
  const acquired = await redis.set(config.lockName, token, { nx: true, px: config.lockTtl });
  if (acquired !== 'OK') return 'skipped';

  try {
    return await work();
  } finally {
    try {
      await redis.eval(UNLOCK, [config.lockName], [token]);
    } catch (err) {
      console.error('receipts: unlock failed', err);
    }
  }
}

export default async function sendReceipts(store: DonationStore, mailer: Mailer) {
  const result = await onlyOnce(async () => {
    const donations = await store.withoutReceipt(config.perRun);

    for (const d of donations) {
      const number = await store.nextReceiptNumber();
      await mailer.send({
        to: d.donorEmail,
        subject: `Your donation receipt no. ${number}`,
        text: `Thank you! We received ${d.amount.toFixed(2)} ${d.currency}. Keep this receipt for your tax return.`,
      });
      await store.saveReceipt(d.id, number);
    }

    return donations.length;
  });

  console.log(result === 'skipped' ? 'receipts: run in progress, skipped' : `receipts: ${result} sent`);
  return { result };
}
