import axios from "axios";
import Redis from "ioredis";
import Redlock, { ResourceLockedError } from "redlock5";
import { pool } from "./db";

const clients = ["redis-a:6379", "redis-b:6379", "redis-c:6379"].map(
  (addr) => new Redis(`redis://${addr}`, { maxRetriesPerRequest: 1, commandTimeout: 1000 }),
);

const redlock = new Redlock(clients, {
  driftFactor: 0.01,
  retryCount: 10,
  retryDelay: 200,
  retryJitter: 200,
  automaticExtensionThreshold: 5000,
});

redlock.on("error", (err) => {
  if (err instanceof ResourceLockedError) return;
  console.error("redlock", err);
});

export async function syncTenant(tenantId: string): Promise<number> {
  return redlock.using([`locks:tenant-sync:${tenantId}`], 15_000, async (signal) => {
    let page: string | null = "first";
    let count = 0;

    while (page) {
      const { data } = await axios.get(`${process.env.CRM_URL}/tenants/${tenantId}/contacts`, {
        params: { page },
        timeout: 20_000,
        signal,
      });
      if (signal.aborted) throw signal.error ?? new Error("lock lost");

      for (const c of data.contacts) {
        await pool.query(
          `INSERT INTO contacts (id, tenant_id, version, name, email)
           VALUES ($1, $2, $3, $4, $5)
           ON CONFLICT (id) DO UPDATE
             SET version = EXCLUDED.version, name = EXCLUDED.name, email = EXCLUDED.email
             WHERE contacts.version < EXCLUDED.version`,
          [c.id, tenantId, c.version, c.name, c.email],
        );
        if (signal.aborted) throw signal.error ?? new Error("lock lost");
        count++;
      }
      page = data.nextPage;
    }
    return count;
  });
}
