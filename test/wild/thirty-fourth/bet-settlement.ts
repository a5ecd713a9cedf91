import Redis from 'ioredis';
import { Queue, Worker, type Job } from 'bullmq';

const url = process.env.REDIS_URL ?? 'redis://localhost:6379';
const redis = new Redis(url);
const connection = new Redis(url, { maxRetriesPerRequest: null });

const SETTLED_TTL_S = 60 * 60 * 24 * 90;

interface SettleJob {
  betId: string;
  winningSelection: string;
}

export interface Bet {
  id: string;
  accountId: string;
  selection: string;
  stakeCents: number;
  decimalOdds: number;
}

export interface BetStore {
  get(betId: string): Promise<Bet>;
  recordOutcome(betId: string, outcome: 'won' | 'lost', payoutCents: number): Promise<void>;
}

export const settlementQueue = new Queue<SettleJob>('bet-settlement', { connection });

export function enqueueSettlement(betId: string, winningSelection: string) {
  return settlementQueue.add(
    'settle',
    { betId, winningSelection },
    { jobId: `settle-${betId}`, attempts: 8, backoff: { type: 'exponential', delay: 2_000 }, removeOnComplete: 10_000 },
  );
}

async function creditWallet(accountId: string, cents: number, reference: string): Promise<void> {
  const res = await fetch(`${process.env.WALLET_URL}/accounts/${accountId}/credits`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ cents, reference }),
    signal: AbortSignal.timeout(10_000),
  });
  if (!res.ok) throw new Error(`wallet answered ${res.status} for ${reference}`);
}

/** Only one worker may settle a given bet, however often the result feed repeats itself. */
async function claimBet(betId: string, owner: string): Promise<boolean> {
  const reply = await redis.set(`bet:settled:${betId}`, owner, 'EX', SETTLED_TTL_S, 'NX');
  return reply === 'OK';
}

export function startSettlementWorker(bets: BetStore): Worker<SettleJob> {
  const worker = new Worker<SettleJob>(
    'bet-settlement',
    async (job: Job<SettleJob>) => {
      const { betId, winningSelection } = job.data;

      if (!(await claimBet(betId, `${process.pid}:${job.id}`))) {
        return { betId, status: 'already-settled' };
      }

      const bet = await bets.get(betId);
      const won = bet.selection === winningSelection;
      const payoutCents = won ? Math.round(bet.stakeCents * bet.decimalOdds) : 0;

      if (won) {
        await creditWallet(bet.accountId, payoutCents, `bet-${betId}`);
      }
      await bets.recordOutcome(betId, won ? 'won' : 'lost', payoutCents);

      return { betId, status: 'settled', payoutCents };
    },
    { connection, concurrency: 16 },
  );

  worker.on('failed', (job, err) => console.error('settlement failed', job?.id, job?.attemptsMade, err));
  worker.on('error', (err) => console.error('settlement worker', err));
  return worker;
}
