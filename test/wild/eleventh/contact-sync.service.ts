import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

interface Logger {
  log(msg: string): void;
  warn(msg: string): void;
}

export interface CrmClient {
  changedSince(tenantId: string, cursor: string | null): Promise<{ contacts: Contact[]; cursor: string | null }>;
}
export interface ContactRepository {
  cursor(tenantId: string): Promise<string | null>;
  /** contacts and cursor in one transaction, with a statement timeout of five seconds */
  upsert(tenantId: string, contacts: Contact[], cursor: string | null): Promise<void>;
}
export type Contact = { id: string; email: string; name: string };

type Lock = { key: string; value: string; deadline: number };

export class ContactSyncService {
  private static readonly TTL_MS = 60_000;
  private static readonly SAFETY_MS = 10_000;

  constructor(
    private readonly redis: Redis,
    private readonly crm: CrmClient,
    private readonly contacts: ContactRepository,
    private readonly logger: Logger,
  ) {}

  // every 5 minutes on every pod, and on demand from the admin UI
  async syncTenant(tenantId: string): Promise<number> {
    const lock = await this.acquireLock(`contact-sync:${tenantId}`);
    if (!lock) {
      this.logger.log(`sync of ${tenantId} already running`);
      return 0;
    }
    let total = 0;
    try {
      let cursor = await this.contacts.cursor(tenantId);
      for (;;) {
        const page = await this.crm.changedSince(tenantId, cursor);
        if (page.contacts.length === 0) return total;

        if (!this.stillHeld(lock)) {
          this.logger.warn(`lock on ${tenantId} is about to expire, stopping after ${total}`);
          return total;
        }
        await this.contacts.upsert(tenantId, page.contacts, page.cursor);
        total += page.contacts.length;
        cursor = page.cursor;
        if (cursor === null) return total;
      }
    } finally {
      await this.releaseLock(lock);
    }
  }

  private async acquireLock(key: string): Promise<Lock | null> {
    const value = randomUUID();
    const deadline = performance.now() + ContactSyncService.TTL_MS - ContactSyncService.SAFETY_MS;
    const result = await this.redis.set(key, value, 'PX', ContactSyncService.TTL_MS, 'NX');
    return result === 'OK' ? { key, value, deadline } : null;
  }

  private stillHeld(lock: Lock): boolean {
    return performance.now() < lock.deadline;
  }

  private async releaseLock(lock: Lock): Promise<void> {
    try {
      await this.redis.del(lock.key);
    } catch (err) {
      this.logger.warn(`releasing ${lock.key} failed: ${(err as Error).message}`);
    }
  }
}
