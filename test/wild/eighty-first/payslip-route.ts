import { randomUUID } from 'node:crypto';
import { NextResponse, type NextRequest } from 'next/server';
import { Redis } from '@upstash/redis';
import { neon } from '@neondatabase/serverless';

export const runtime = 'nodejs';
export const maxDuration = 30;

const redis = Redis.fromEnv();
const sql = neon(process.env.DATABASE_URL!);

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

async function tryLock(key: string, token: string, seconds: number): Promise<boolean> {
  const result = await redis.set(key, token, { nx: true, ex: seconds });
  return result !== undefined;
}

async function unlock(key: string, token: string): Promise<void> {
  try {
    await redis.eval(RELEASE, [key], [token]);
  } catch (err) {
    console.warn('payslip lock left to expire', key, err);
  }
}

async function requestTransfer(employeeId: string, cents: number): Promise<string> {
  const res = await fetch(`${process.env.BANK_API}/transfers`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${process.env.BANK_KEY}` },
    body: JSON.stringify({ employeeId, cents }),
    signal: AbortSignal.timeout(10_000),
  });
  if (!res.ok) throw new Error(`bank: ${res.status}`);
  return ((await res.json()) as { id: string }).id;
}

export async function POST(req: NextRequest) {
  const { employeeId, month } = (await req.json()) as { employeeId: string; month: string };
  const key = `payslip:${employeeId}:${month}`;
  const token = randomUUID();

  if (!(await tryLock(key, token, 120))) {
    return NextResponse.json({ error: 'payment is in progress' }, { status: 409 });
  }

  try {
    const [slip] = await sql`SELECT id, net_cents, transfer_id FROM payslips WHERE employee_id = ${employeeId} AND month = ${month}`;
    if (!slip) return NextResponse.json({ error: 'not found' }, { status: 404 });
    if (slip.transfer_id) return NextResponse.json({ transfer: slip.transfer_id });

    const transfer = await requestTransfer(employeeId, slip.net_cents);
    await sql`UPDATE payslips SET transfer_id = ${transfer}, paid_at = now() WHERE id = ${slip.id}`;
    return NextResponse.json({ transfer }, { status: 201 });
  } finally {
    await unlock(key, token);
  }
}
