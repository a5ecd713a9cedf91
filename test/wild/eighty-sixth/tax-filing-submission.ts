import Redis from 'ioredis';
import Redlock, { type RedlockAbortSignal } from 'redlock5';
import { PrismaClient } from '@prisma/client';
import pino from 'pino';

export interface FilingView { id: string; revision: number; status: string; payload: unknown }
export interface Receipt { number: string; acceptedAt: string }

export class FilingRejectedError extends Error {}

export interface AuthorityGateway {
  transmit(filing: FilingView, signal: AbortSignal): Promise<Receipt>;
}

export class HttpAuthorityGateway implements AuthorityGateway {
  constructor(private readonly baseUrl: string, private readonly apiKey: string) {}

  // The authority answers a repeated submission reference with the receipt of the first one.
  async transmit(filing: FilingView, signal: AbortSignal): Promise<Receipt> {
    const reference = `${filing.id}-r${filing.revision}`;
    const res = await fetch(`${this.baseUrl}/submissions/${encodeURIComponent(reference)}`, {
      method: 'PUT',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${this.apiKey}` },
      body: JSON.stringify(filing.payload),
      signal: AbortSignal.any([signal, AbortSignal.timeout(10_000)]),
    });
    if (res.status === 422) throw new FilingRejectedError(`${reference}: ${await res.text()}`);
    if (!res.ok) throw new Error(`authority answered ${res.status} for ${reference}`);
    return (await res.json()) as Receipt;
  }
}

export class FilingRepository {
  constructor(private readonly prisma: PrismaClient) {}

  load(id: string): Promise<FilingView> {
    return this.prisma.filing.findUniqueOrThrow({
      where: { id },
      select: { id: true, revision: true, status: true, payload: true },
    });
  }

  // Filings are edited only while READY, so from here on the revision stands.
  async freeze(filing: FilingView): Promise<boolean> {
    const { count } = await this.prisma.filing.updateMany({
      where: { id: filing.id, revision: filing.revision, status: { in: ['READY', 'SUBMITTING'] } },
      data: { status: 'SUBMITTING' },
    });
    return count === 1;
  }

  async markRejected(filing: FilingView): Promise<void> {
    await this.prisma.filing.updateMany({
      where: { id: filing.id, revision: filing.revision, status: 'SUBMITTING' },
      data: { status: 'REJECTED' },
    });
  }

  async markSubmitted(filing: FilingView, receipt: Receipt): Promise<boolean> {
    const { count } = await this.prisma.filing.updateMany({
      where: { id: filing.id, revision: filing.revision, status: 'SUBMITTING' },
      data: { status: 'SUBMITTED', receiptNumber: receipt.number, submittedAt: new Date(receipt.acceptedAt) },
    });
    return count === 1;
  }
}

export type SubmissionOutcome = 'submitted' | 'rejected' | 'not-ready';

export class FilingSubmissionService {
  constructor(
    private readonly redlock: Redlock,
    private readonly filings: FilingRepository,
    private readonly authority: AuthorityGateway,
    private readonly log: pino.Logger,
  ) {}

  async submit(filingId: string): Promise<SubmissionOutcome> {
    return this.redlock.using(
      [`tax:filing:${filingId}:submission`],
      20_000,
      { automaticExtensionThreshold: 6_000 },
      async (signal) => {
        const filing = await this.filings.load(filingId);
        if (!(await this.filings.freeze(filing))) return 'not-ready';
        this.ensureHeld(signal);
        try {
          const receipt = await this.authority.transmit(filing, signal);
          const recorded = await this.filings.markSubmitted(filing, receipt);
          this.log.info({ filingId, receipt: receipt.number, recorded }, 'filing transmitted');
          return 'submitted';
        } catch (err) {
          if (!(err instanceof FilingRejectedError)) throw err;
          await this.filings.markRejected(filing);
          return 'rejected';
        }
      },
    );
  }

  private ensureHeld(signal: RedlockAbortSignal): void {
    if (signal.aborted) throw signal.error ?? new Error('submission lock lost');
  }
}

export function createSubmissionService(env: NodeJS.ProcessEnv): FilingSubmissionService {
  const log = pino({ name: 'filing-submission' });
  const redis = new Redis(env.REDIS_URL ?? 'redis://localhost:6379', { commandTimeout: 3_000 });
  redis.on('error', (err) => log.error({ err }, 'redis'));

  const redlock = new Redlock([redis], { driftFactor: 0.01, retryCount: 5, retryDelay: 400, retryJitter: 200 });
  redlock.on('error', (err) => log.debug({ err }, 'redlock'));

  return new FilingSubmissionService(
    redlock,
    new FilingRepository(new PrismaClient()),
    new HttpAuthorityGateway(env.AUTHORITY_URL!, env.AUTHORITY_KEY!),
    log,
  );
}
