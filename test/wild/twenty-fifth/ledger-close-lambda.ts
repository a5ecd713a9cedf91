import Redis from 'ioredis';
import Redlock, { ExecutionError } from 'redlock5';

const { REDIS_URL = 'redis://localhost:6379', LEDGER_URL = 'http://ledger.internal' } = process.env;

// Commands fail fast, so that a hanging connection cannot hide that an extension did not happen.
const redis = new Redis(REDIS_URL, { commandTimeout: 1_000, maxRetriesPerRequest: 1 });

// No waiting in here: SQS delivers the message again when we throw.
const redlock = new Redlock([redis], { retryCount: 0, automaticExtensionThreshold: 8_000 });
redlock.on('error', (err) => console.warn('redlock', err?.message));

interface CloseEvent {
  Records: { messageId: string; body: string }[];
}
interface CloseRequest {
  period: string;
  accounts: string[];
}

async function closeAccount(period: string, account: string, signal: AbortSignal): Promise<void> {
  const res = await fetch(`${LEDGER_URL}/accounts/${encodeURIComponent(account)}/close`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      // The ledger keeps these for a year and answers a repeated one with the first result.
      'idempotency-key': `close:${period}:${account}`,
    },
    body: JSON.stringify({ period }),
    signal: AbortSignal.any([signal, AbortSignal.timeout(5_000)]),
  });
  if (!res.ok) throw new Error(`ledger answered ${res.status} for ${account}`);
}

async function closePeriod({ period, accounts }: CloseRequest): Promise<number> {
  return redlock.using([`lock:ledger-close:${period}`], 24_000, async (signal) => {
    const doneKey = `ledger-close:${period}:done`;
    const done = new Set(await redis.smembers(doneKey));
    let closed = 0;
    for (const account of accounts) {
      if (done.has(account)) continue;
      if (signal.aborted) throw signal.error ?? new Error('lock lost');
      await closeAccount(period, account, signal);
      await redis.sadd(doneKey, account);
      closed++;
    }
    return closed;
  });
}

export const handler = async (event: CloseEvent) => {
  const batchItemFailures: { itemIdentifier: string }[] = [];
  for (const { messageId, body } of event.Records) {
    try {
      const request = JSON.parse(body) as CloseRequest;
      console.log(request.period, 'closed', await closePeriod(request));
    } catch (err) {
      const busy = err instanceof ExecutionError;
      console.log(messageId, busy ? 'lock not available' : err);
      batchItemFailures.push({ itemIdentifier: messageId });
    }
  }
  return { batchItemFailures };
};
