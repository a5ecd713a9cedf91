import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { createClient } from 'redis';

const LOCK_TTL_MS = 10_000;
const MAX_ATTEMPTS = 40;

const client = createClient({ url: process.env.REDIS_URL });
client.on('error', (err) => console.error('redis', err));
await client.connect();

const UNLOCK = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
  end
  return 0
`;

async function lockFund(fundId) {
  const key = `fund:${fundId}:lock`;
  const token = randomUUID();

  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const signal = AbortSignal.timeout(6_000);
    const reply = await client.set(key, token, { nx: true, px: LOCK_TTL_MS });
    if (reply === 'OK') {
      return {
        signal,
        unlock: () => client.eval(UNLOCK, { keys: [key], arguments: [token] }),
      };
    }
    await delay(50 + Math.floor(Math.random() * 100));
  }
  return null;
}

/**
 * Doubles a donation out of the sponsor's matching fund, as far as the fund goes.
 *
 * @param {{ id: string, fundId: string, cents: number }} donation
 * @param {{
 *   remainingCents(fundId: string, signal: AbortSignal): Promise<number>,
 *   findMatch(donationId: string, signal: AbortSignal): Promise<{ cents: number } | null>,
 *   saveMatch(donationId: string, fundId: string, cents: number, remaining: number, signal: AbortSignal): Promise<void>,
 * }} ledger
 */
export async function matchDonation(donation, ledger) {
  const lock = await lockFund(donation.fundId);
  if (!lock) {
    throw new Error(`matching fund ${donation.fundId} is busy`);
  }

  try {
    const already = await ledger.findMatch(donation.id, lock.signal);
    if (already) return already.cents;

    const remaining = await ledger.remainingCents(donation.fundId, lock.signal);
    const matched = Math.min(remaining, donation.cents);
    if (matched === 0) return 0;

    await ledger.saveMatch(donation.id, donation.fundId, matched, remaining - matched, lock.signal);
    return matched;
  } finally {
    await lock.unlock().catch((err) => console.warn('unlock failed', donation.fundId, err));
  }
}
