import Client from 'ioredis';
import { Duration } from 'luxon';
import type { Pool } from 'pg';
import Redlock, { ResourceLockedError } from 'redlock5';

export interface PriceRow {
  feeder: string;
  validFrom: Date;
  centsPerKwh: number;
}

export interface TariffRun {
  zone: string;
  /** number given by the pricing engine, grows with every published run of a zone */
  revision: number;
  rows: AsyncIterable<PriceRow[]>;
}

const LEASE = Duration.fromObject({ seconds: 20 });

export function createRedlock(urls = (process.env.LOCK_NODES ?? '').split(',')): Redlock {
  const clients = urls.map(
    (url) => new Client(url.trim(), { maxRetriesPerRequest: 1, enableOfflineQueue: true, commandTimeout: 800 }),
  );
  const redlock = new Redlock(clients, {
    driftFactor: 0.01,
    retryCount: 8,
    retryDelay: 400,
    retryJitter: 200,
    automaticExtensionThreshold: 6_000,
  });
  redlock.on('error', (err) => {
    if (err instanceof ResourceLockedError) return; // somebody else publishes, retried by redlock
    console.error('redlock', err);
  });
  return redlock;
}

export class TariffPublisher {
  constructor(
    private readonly redlock: Redlock,
    private readonly pool: Pool,
  ) {}

  /**
   * One publisher per zone at a time keeps the load on the database low. Rows carry the revision,
   * and an older revision never replaces a newer one, even if it is written last.
   */
  async publish(run: TariffRun): Promise<number> {
    return this.redlock.using([`tariff:publish:${run.zone}`], LEASE.toMillis(), async (signal) => {
      let written = 0;
      for await (const batch of run.rows) {
        if (signal.aborted) throw signal.error;
        written += await this.upsert(run.revision, batch);
      }
      return written;
    });
  }

  private async upsert(revision: number, batch: PriceRow[]): Promise<number> {
    const res = await this.pool.query(
      `INSERT INTO tariffs (feeder, valid_from, cents_per_kwh, revision)
       SELECT f, v, c, $4 FROM unnest($1::text[], $2::timestamptz[], $3::numeric[]) AS t(f, v, c)
       ON CONFLICT (feeder, valid_from) DO UPDATE
         SET cents_per_kwh = EXCLUDED.cents_per_kwh, revision = EXCLUDED.revision
         WHERE tariffs.revision < EXCLUDED.revision`,
      [batch.map((r) => r.feeder), batch.map((r) => r.validFrom), batch.map((r) => r.centsPerKwh), revision],
    );
    return res.rowCount ?? 0;
  }
}
