import { randomUUID } from 'node:crypto';
import { Redis } from 'iovalkey';

const valkey = new Redis(process.env.VALKEY_URL ?? 'redis://127.0.0.1:6379', {
  maxRetriesPerRequest: 2,
  commandTimeout: 2_000,
});
valkey.on('error', (err: Error) => console.error('valkey', err.message));

const LEASE_MS = 30_000;
const BEAT_MS = 8_000;
const SPARE_MS = 5_000;

const KEEP = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

const DROP = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

class Lease {
  private readonly timer: NodeJS.Timeout;
  private closed = false;

  private constructor(
    private readonly key: string,
    private readonly token: string,
    private validUntil: number,
  ) {
    this.timer = setInterval(() => void this.beat(), BEAT_MS);
    this.timer.unref();
  }

  static async tryTake(key: string): Promise<Lease | null> {
    const token = randomUUID();
    const sentAt = performance.now();
    const reply = await valkey.set(key, token, 'PX', LEASE_MS, 'NX');
    return reply === 'OK' ? new Lease(key, token, sentAt + LEASE_MS) : null;
  }

  private async beat(): Promise<void> {
    const sentAt = performance.now();
    try {
      const kept = await valkey.eval(KEEP, 1, this.key, this.token, LEASE_MS);
      if (this.closed) return;
      if (kept === 1) {
        this.validUntil = sentAt + LEASE_MS;
      } else {
        this.validUntil = 0;
        clearInterval(this.timer);
      }
    } catch (err) {
      console.warn('heartbeat', this.key, err); // validUntil stays as it is
    }
  }

  /** Throws unless the lease is ours for some more seconds. */
  check(): void {
    if (performance.now() > this.validUntil - SPARE_MS) throw new Error(`${this.key} lost`);
  }

  async close(): Promise<void> {
    this.closed = true;
    clearInterval(this.timer);
    try {
      await valkey.eval(DROP, 1, this.key, this.token);
    } catch (err) {
      console.warn('lease will expire', this.key, err);
    }
  }
}

export interface Report {
  id: string;
  tenant: string;
}

export interface ReportSource {
  due(tenant: string): Promise<Report[]>;
  /** Renders and mails; bounded by the signal. */
  deliver(report: Report, signal: AbortSignal): Promise<void>;
  markDelivered(report: Report): Promise<void>;
}

/** Every five minutes on all app servers; per tenant only one of them delivers. */
export async function reportTick(tenant: string, source: ReportSource): Promise<number> {
  const lease = await Lease.tryTake(`reports:${tenant}:lease`);
  if (!lease) return 0;

  const reports = await source.due(tenant).catch((err: unknown) => {
    console.error('cannot list reports', tenant, err);
    return [] as Report[];
  });
  if (reports.length === 0) return 0;

  let delivered = 0;
  try {
    for (const report of reports) {
      lease.check();
      await source.deliver(report, AbortSignal.timeout(SPARE_MS - 2_000));
      await source.markDelivered(report);
      delivered++;
    }
  } finally {
    await lease.close();
  }
  return delivered;
}
