import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient, WatchError } from "redis";

const LEASE_MS = 60_000;
const CARRIER_TIMEOUT_MS = 20_000;
const PENDING = "labels:pending";

// WATCH belongs to a connection, so this one is the worker's own and is never reconnected silently.
const conn = createClient({
  url: process.env.REDIS_URL,
  disableOfflineQueue: true,
  socket: { reconnectStrategy: false },
});
conn.on("error", (err) => console.error("[labels]", err));

const orderKey = (id: string) => `order:${id}:label`;

async function serverNow(): Promise<number> {
  const [seconds, micros] = (await conn.sendCommand(["TIME"])) as unknown as [string, string];
  return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
}

async function claim(orderId: string): Promise<string | null> {
  const key = orderKey(orderId);
  await conn.watch(key);
  const order = await conn.hGetAll(key);
  const now = await serverNow();
  const leased = order.status === "buying" && Number(order.leaseUntil) > now;
  if (order.status === "done" || leased) {
    await conn.unwatch();
    return null;
  }
  const id = randomUUID();
  try {
    await conn.multi().hSet(key, { status: "buying", claim: id, leaseUntil: String(now + LEASE_MS) }).exec();
    return id;
  } catch (err) {
    if (err instanceof WatchError) return null;
    throw err;
  }
}

async function updateIfMine(orderId: string, claimId: string, fields: Record<string, string>, done: boolean): Promise<boolean> {
  const key = orderKey(orderId);
  for (let i = 0; i < 5; i++) {
    await conn.watch(key);
    if ((await conn.hGet(key, "claim")) !== claimId) {
      await conn.unwatch();
      return false;
    }
    try {
      const tx = conn.multi().hSet(key, fields);
      if (done) tx.zRem(PENDING, orderId);
      await tx.exec();
      return true;
    } catch (err) {
      if (!(err instanceof WatchError)) throw err;
    }
  }
  throw new Error(`order ${orderId} keeps changing`);
}

async function buyLabel(orderId: string): Promise<string> {
  const res = await fetch(`${process.env.CARRIER_API}/labels`, {
    method: "POST",
    headers: { "content-type": "application/json", "idempotency-key": `label-${orderId}` },
    body: JSON.stringify({ reference: orderId }),
    signal: AbortSignal.timeout(CARRIER_TIMEOUT_MS),
  });
  if (!res.ok) throw new Error(`carrier answered ${res.status}`);
  return ((await res.json()) as { url: string }).url;
}

async function processOrder(orderId: string): Promise<void> {
  const claimId = await claim(orderId);
  if (!claimId) return;
  let url: string;
  try {
    url = await buyLabel(orderId);
  } catch (err) {
    console.error(`label for ${orderId} failed, will be tried again`, err);
    await updateIfMine(orderId, claimId, { status: "pending" }, false);
    return;
  }
  const saved = await updateIfMine(orderId, claimId, { status: "done", url }, true);
  if (!saved) console.warn(`claim on ${orderId} had passed to another worker`);
}

export async function runLabelWorker(stop: AbortSignal): Promise<void> {
  await conn.connect();
  try {
    while (!stop.aborted) {
      for (const orderId of await conn.zRange(PENDING, 0, -1)) {
        if (stop.aborted) break;
        await processOrder(orderId);
      }
      await sleep(1_000);
    }
  } finally {
    if (conn.isOpen) await conn.quit();
  }
}
