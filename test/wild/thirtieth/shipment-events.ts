import { hostname } from "node:os";
import { Redis } from "ioredis";

const STREAM = "shipments:events";
const GROUP = "customer-notify";
const CONSUMER = `${hostname()}-${process.pid}`;
const SEEN_SECONDS = 7 * 24 * 3600;
const RECLAIM_IDLE_MS = 5 * 60_000;

type Entry = [id: string, fields: string[]];

export interface ShipmentEvent {
  eventId: string;
  orderId: string;
  status: "packed" | "shipped" | "delivered";
}

export interface Orders {
  setShipmentStatus(orderId: string, status: string, opts: { timeoutMs: number }): Promise<void>;
}

const redis = new Redis(process.env.REDIS_URL ?? "redis://localhost:6379");
redis.on("error", (e) => console.error("shipment-events:", e.message));

function parse(fields: string[]): ShipmentEvent {
  const map: Record<string, string> = {};
  for (let i = 0; i + 1 < fields.length; i += 2) map[fields[i]!] = fields[i + 1]!;
  return map as unknown as ShipmentEvent;
}

async function handle(orders: Orders, ev: ShipmentEvent): Promise<void> {
  await orders.setShipmentStatus(ev.orderId, ev.status, { timeoutMs: 5_000 });
  const res = await fetch(`${process.env.NOTIFY_URL}/orders/${ev.orderId}/notify`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ template: `shipment-${ev.status}` }),
    signal: AbortSignal.timeout(10_000),
  });
  if (!res.ok) throw new Error(`notify service: ${res.status}`);
}

async function processEntry(orders: Orders, [id, fields]: Entry): Promise<void> {
  const ev = parse(fields);

  // the carrier repeats events under new stream ids, eventId is stable
  const first = await redis.set(`shipments:seen:${ev.eventId}`, CONSUMER, "EX", SEEN_SECONDS, "NX");
  if (first !== "OK") {
    await redis.xack(STREAM, GROUP, id);
    return;
  }

  try {
    await handle(orders, ev);
  } catch (err) {
    // not acked, comes back through XAUTOCLAIM
    console.error(`shipment-events: ${ev.eventId} failed, will be redelivered`, err);
    return;
  }
  await redis.xack(STREAM, GROUP, id);
}

async function reclaim(orders: Orders): Promise<void> {
  const [, entries] = (await redis.xautoclaim(
    STREAM, GROUP, CONSUMER, RECLAIM_IDLE_MS, "0-0", "COUNT", 10,
  )) as [string, Entry[], string[]];
  for (const entry of entries) await processEntry(orders, entry);
}

export async function consume(orders: Orders, stop: AbortSignal): Promise<void> {
  await redis.xgroup("CREATE", STREAM, GROUP, "$", "MKSTREAM").catch((err: Error) => {
    if (!err.message.startsWith("BUSYGROUP")) throw err;
  });
  const reader = redis.duplicate(); // blocking reads get their own connection
  reader.on("error", (e) => console.error("shipment-events reader:", e.message));

  try {
    while (!stop.aborted) {
      try {
        await reclaim(orders);
        const batch = (await reader.xreadgroup(
          "GROUP", GROUP, CONSUMER, "COUNT", 10, "BLOCK", 5_000, "STREAMS", STREAM, ">",
        )) as [string, Entry[]][] | null;
        for (const [, entries] of batch ?? []) {
          for (const entry of entries) await processEntry(orders, entry);
        }
      } catch (err) {
        console.error("shipment-events: round failed", err);
        await new Promise((r) => setTimeout(r, 1_000));
      }
    }
  } finally {
    reader.disconnect();
  }
}
