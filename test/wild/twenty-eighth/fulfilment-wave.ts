import { Redis } from 'ioredis';
import Redlock, { ResourceLockedError, type RedlockAbortSignal } from 'redlock5';

/**
 * Releases a pick wave to the floor: every order line is matched to a bin and the bin's
 * free stock is written down. Started by the wave planner, and by hand from the back
 * office, so a warehouse is locked while its wave is being allocated.
 */
const nodes = (process.env.REDLOCK_NODES ?? 'redis://r1:6379,redis://r2:6379,redis://r3:6379')
  .split(',')
  .map((url) => new Redis(url.trim(), { lazyConnect: false, commandTimeout: 800 }));

const redlock = new Redlock(nodes, {
  driftFactor: 0.01,
  retryCount: 0, // a second start of the same wave should fail at once
  automaticExtensionThreshold: 4_000,
});

redlock.on('error', (err) => {
  if (!(err instanceof ResourceLockedError)) console.warn('[wave] redlock', err.message);
});

export interface OrderLine {
  orderId: string;
  sku: string;
  quantity: number;
}

export interface Bin {
  code: string;
  free: number;
}

export interface Wms {
  openLines(warehouse: string, waveId: string): Promise<OrderLine[]>;
  bestBin(warehouse: string, sku: string, quantity: number): Promise<Bin | null>;
  setFreeStock(warehouse: string, bin: string, sku: string, free: number): Promise<void>;
  assign(line: OrderLine, bin: string): Promise<void>;
  backorder(line: OrderLine): Promise<void>;
}

/** Lines of the same article compete for the same bins and are done one by one. */
function groupBySku(lines: OrderLine[]): OrderLine[][] {
  const groups = new Map<string, OrderLine[]>();
  for (const line of lines) {
    const group = groups.get(line.sku);
    if (group) group.push(line);
    else groups.set(line.sku, [line]);
  }
  return [...groups.values()];
}

async function allocate(wms: Wms, warehouse: string, line: OrderLine): Promise<void> {
  const bin = await wms.bestBin(warehouse, line.sku, line.quantity);
  if (!bin) {
    await wms.backorder(line);
    return;
  }
  await wms.setFreeStock(warehouse, bin.code, line.sku, bin.free - line.quantity);
  await wms.assign(line, bin.code);
}

export async function releaseWave(wms: Wms, warehouse: string, waveId: string): Promise<number> {
  return redlock.using([`wave:${warehouse}`], 15_000, async (signal: RedlockAbortSignal) => {
    const lines = await wms.openLines(warehouse, waveId);
    console.info(`[wave] ${waveId}: ${lines.length} lines in ${warehouse}`);

    groupBySku(lines).forEach(async (group) => {
      for (const line of group) {
        if (signal.aborted) throw signal.error ?? new Error('warehouse lock lost');
        await allocate(wms, warehouse, line);
      }
    });

    return lines.length;
  });
}

export async function shutdown(): Promise<void> {
  await redlock.quit();
}
