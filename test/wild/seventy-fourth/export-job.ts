import Client from "ioredis";
import Redlock, { ResourceLockedError, type Lock } from "redlock5";
import { config } from "./config";
import { logger } from "./logger";
import { Warehouse } from "./warehouse";

export interface ExportOptions {
  /** Tenant whose orders are exported. */
  tenantId: string;
  /** First day of the range, inclusive (ISO date). */
  from: string;
  /** Last day of the range, inclusive (ISO date). */
  to: string;
}

export interface ExportResult {
  status: "completed" | "already-running";
  rows: number;
}

/** Lifetime of the lock. Short, so that a crashed export does not block the next one. */
const LOCK_TTL_MS = 30_000;
/** The lock is extended three times per lifetime. */
const HEARTBEAT_MS = 10_000;

const redlock = new Redlock([new Client(config.redisUrl)], {
  driftFactor: 0.01,
  retryCount: 3,
  retryDelay: 200,
  retryJitter: 100,
  automaticExtensionThreshold: 500,
});

redlock.on("error", (error: unknown) => {
  // Contention is part of normal operation.
  if (error instanceof ResourceLockedError) return;
  logger.error({ error }, "redlock error");
});

/**
 * Keeps a lock alive while a long-running task is in progress.
 *
 * @returns a function that stops the heartbeat
 */
function startHeartbeat(lock: Lock, tenantId: string): () => void {
  const timer = setInterval(() => {
    lock
      .extend(LOCK_TTL_MS)
      .then(() => logger.debug({ tenantId }, "export lock extended"))
      .catch((error: unknown) => logger.warn({ tenantId, error }, "could not extend export lock"));
  }, HEARTBEAT_MS);
  timer.unref();
  return () => clearInterval(timer);
}

/**
 * Appends the orders of a tenant to the warehouse. Large tenants take 10 to 20 minutes.
 * The target table is append-only, so two exports of one tenant must not run side by side.
 */
export async function exportOrders(warehouse: Warehouse, options: ExportOptions): Promise<ExportResult> {
  const { tenantId, from, to } = options;

  let lock: Lock;
  try {
    lock = await redlock.acquire([`locks:export:${tenantId}`], LOCK_TTL_MS);
  } catch (error) {
    logger.info({ tenantId, error }, "export is already running elsewhere");
    return { status: "already-running", rows: 0 };
  }

  const stopHeartbeat = startHeartbeat(lock, tenantId);
  let rows = 0;
  try {
    const watermark = await warehouse.lastExportedOrder(tenantId);
    for await (const batch of warehouse.readOrders({ tenantId, from, to, after: watermark })) {
      await warehouse.append("orders", batch);
      rows += batch.length;
    }
    await warehouse.setWatermark(tenantId, to);
    logger.info({ tenantId, rows }, "export completed");
    return { status: "completed", rows };
  } finally {
    stopHeartbeat();
    try {
      await lock.release();
    } catch (error) {
      logger.warn({ tenantId, error }, "could not release export lock");
    }
  }
}
