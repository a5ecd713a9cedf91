import Redis from 'ioredis';
import Redlock, { type Lock } from 'redlock5';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
const redlock = new Redlock([redis], { retryCount: 5, retryDelay: 250, retryJitter: 100 });
redlock.on('error', (err) => console.debug('redlock', err.message));

const LOCK_TTL = Number(process.env.LAB_LOCK_TTL_SECONDS ?? 60);
const LAB = process.env.LAB_URL ?? 'http://lab.internal';
const EHR = process.env.EHR_URL ?? 'http://ehr.internal/fhir';

interface LabValue {
  code: string;
  value: number;
  unit: string;
}

async function getJson<T>(url: string): Promise<T> {
  const res = await fetch(url, { signal: AbortSignal.timeout(10_000) });
  if (!res.ok) throw new Error(`${url}: ${res.status}`);
  return (await res.json()) as T;
}

async function reportExists(orderId: string): Promise<boolean> {
  const bundle = await getJson<{ total: number }>(
    `${EHR}/DiagnosticReport?identifier=${encodeURIComponent(orderId)}&_summary=count`,
  );
  return bundle.total > 0;
}

async function createReport(orderId: string, patientId: string, values: LabValue[]): Promise<void> {
  const res = await fetch(`${EHR}/DiagnosticReport`, {
    method: 'POST',
    headers: { 'content-type': 'application/fhir+json' },
    body: JSON.stringify({
      resourceType: 'DiagnosticReport',
      status: 'final',
      identifier: [{ value: orderId }],
      subject: { reference: `Patient/${patientId}` },
      contained: values.map((v, i) => ({
        resourceType: 'Observation',
        id: `o${i}`,
        status: 'final',
        code: { coding: [{ system: 'http://loinc.org', code: v.code }] },
        valueQuantity: { value: v.value, unit: v.unit },
      })),
      result: values.map((_, i) => ({ reference: `#o${i}` })),
    }),
    signal: AbortSignal.timeout(10_000),
  });
  if (!res.ok) throw new Error(`EHR rejected report ${orderId}: ${res.status}`);
}

/**
 * The lab announces an order by webhook and again in the hourly file, so the
 * same order often arrives on two instances at the same moment.
 */
export async function importResults(orderId: string): Promise<'imported' | 'known'> {
  const lock: Lock = await redlock.acquire([`lock:lab-order:${orderId}`], LOCK_TTL);
  try {
    if (await reportExists(orderId)) return 'known';

    const order = await getJson<{ patientId: string; values: LabValue[] }>(
      `${LAB}/orders/${encodeURIComponent(orderId)}/results`,
    );
    await createReport(orderId, order.patientId, order.values);
    return 'imported';
  } finally {
    await lock.release().catch((err) => console.warn(`release of ${orderId}`, err.message));
  }
}
