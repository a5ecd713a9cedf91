import { Inject, Injectable, Logger, OnModuleDestroy, OnModuleInit } from '@nestjs/common';
import { CronJob } from 'cron';
import type Redis from 'ioredis';
import { Mutex } from 'redis-semaphore';
import { Pool } from 'pg';
import { CrmClient, CrmContact } from '../crm/crm.client';
import { PG_POOL, REDIS } from '../tokens';

@Injectable()
export class CrmSyncService implements OnModuleInit, OnModuleDestroy {
  private readonly log = new Logger(CrmSyncService.name);
  private job?: CronJob;

  constructor(
    @Inject(REDIS) private readonly redis: Redis,
    @Inject(PG_POOL) private readonly pool: Pool,
    private readonly crm: CrmClient,
  ) {}

  onModuleInit(): void {
    this.job = CronJob.from({
      cronTime: process.env.CRM_SYNC_CRON ?? '0 */5 * * * *',
      onTick: () => this.syncAll(),
      start: true,
    });
  }

  onModuleDestroy(): void {
    this.job?.stop();
  }

  async syncAll(): Promise<void> {
    const { rows } = await this.pool.query<{ id: string }>('select id from crm_portals where enabled');
    for (const { id } of rows) {
      try {
        await this.syncPortal(id);
      } catch (err) {
        this.log.error(`portal ${id}: ${(err as Error).message}`);
      }
    }
  }

  async syncPortal(portal: string): Promise<void> {
    const lost = new AbortController();
    const mutex = new Mutex(this.redis, `crm-sync:${portal}`, {
      lockTimeout: 30_000,
      refreshInterval: 8_000,
      onLockLost: (err) => lost.abort(err),
    });
    if (!(await mutex.tryAcquire())) {
      this.log.debug(`portal ${portal} is being synced elsewhere`);
      return;
    }
    try {
      await this.pull(portal, lost.signal);
    } finally {
      await mutex.release();
    }
  }

  private async pull(portal: string, signal: AbortSignal): Promise<void> {
    const { rows } = await this.pool.query<{ cursor: string }>(
      'select cursor from crm_portals where id = $1',
      [portal],
    );
    let cursor = rows[0].cursor;
    for (;;) {
      signal.throwIfAborted();
      const page = await this.crm.changes(portal, cursor, { limit: 200, signal });
      for (const contact of page.contacts) {
        signal.throwIfAborted();
        await this.upsert(portal, contact);
      }
      if (page.next === null) return;
      const moved = await this.pool.query(
        'update crm_portals set cursor = $3 where id = $1 and cursor = $2',
        [portal, cursor, page.next],
      );
      if (moved.rowCount !== 1) throw new Error('cursor was moved by somebody else');
      cursor = page.next;
    }
  }

  // revision comes from the CRM and only grows
  private async upsert(portal: string, contact: CrmContact): Promise<void> {
    await this.pool.query(
      `insert into contacts (portal, crm_id, email, name, revision)
       values ($1, $2, $3, $4, $5)
       on conflict (portal, crm_id) do update
          set email = excluded.email, name = excluded.name, revision = excluded.revision
        where contacts.revision < excluded.revision`,
      [portal, contact.id, contact.email, contact.name, contact.revision],
    );
  }
}
