import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';

const redis = Redis.fromEnv();

const LOCK_MS = 12_000;
const PHARMACY_MS = 9_000;

interface Prescription {
  id: string;
  pharmacy: string;
  refillsLeft: number;
}

type Handler = (req: Request, prescriptionId: string) => Promise<Response>;

async function lock(key: string): Promise<string | null> {
  const token = randomUUID();
  const reply = await redis.set(key, token, { nx: true, px: LOCK_MS });
  return reply === 'OK' ? token : null;
}

async function unlock(key: string, token: string): Promise<void> {
  const holder = await redis.get<string>(key);
  if (holder === token) {
    await redis.del(key);
  }
}

/** One request at a time for each prescription. */
function exclusive(handler: Handler): Handler {
  return async (req, prescriptionId) => {
    const key = `refill:${prescriptionId}:lock`;
    const token = await lock(key);
    if (token === null) {
      return Response.json({ error: 'a refill is under way' }, { status: 409, headers: { 'retry-after': '5' } });
    }
    try {
      return await handler(req, prescriptionId);
    } finally {
      await unlock(key, token).catch((err) => console.warn('unlock of %s', key, err));
    }
  };
}

async function orderAtPharmacy(p: Prescription): Promise<string> {
  const res = await fetch(`${process.env.PHARMACY_HUB}/${p.pharmacy}/orders`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${process.env.HUB_TOKEN}` },
    body: JSON.stringify({ prescription: p.id }),
    signal: AbortSignal.timeout(PHARMACY_MS),
  });
  if (!res.ok) throw new Error(`pharmacy hub answered ${res.status}`);
  const { orderId } = (await res.json()) as { orderId: string };
  return orderId;
}

const requestRefill = exclusive(async (_req, prescriptionId) => {
  const prescription = await redis.get<Prescription>(`prescription:${prescriptionId}`);
  if (!prescription) return Response.json({ error: 'not found' }, { status: 404 });
  if (prescription.refillsLeft < 1) {
    return Response.json({ error: 'no refills left, see your doctor' }, { status: 422 });
  }

  const orderId = await orderAtPharmacy(prescription);
  await redis.set(`prescription:${prescriptionId}`, {
    ...prescription,
    refillsLeft: prescription.refillsLeft - 1,
  });
  return Response.json({ orderId, refillsLeft: prescription.refillsLeft - 1 }, { status: 201 });
});

export async function POST(req: Request, ctx: { params: Promise<{ id: string }> }): Promise<Response> {
  const { id } = await ctx.params;
  return requestRefill(req, id);
}
