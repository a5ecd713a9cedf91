import { NextResponse } from 'next/server';
import { Redis } from '@upstash/redis';
import { nanoid } from 'nanoid';
import { z } from 'zod';
import { prisma } from '@/lib/prisma';

export const runtime = 'nodejs';
export const maxDuration = 30;

const redis = Redis.fromEnv();
const LEASE_MS = 45_000;

const Body = z.object({
  surveyId: z.string().uuid(),
  corners: z.array(z.tuple([z.number(), z.number()])).min(3).max(12),
});

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`;

class SurveyLease implements AsyncDisposable {
  private constructor(
    private readonly key: string,
    private readonly token: string,
  ) {}

  static async take(surveyId: string): Promise<SurveyLease | null> {
    const key = `lease:burial-survey:${surveyId}`;
    const token = nanoid();
    const reply = await redis.set(key, token, { nx: true, px: LEASE_MS });
    return reply === 'OK' ? new SurveyLease(key, token) : null;
  }

  async [Symbol.asyncDispose]() {
    try {
      await redis.eval(RELEASE, [this.key], [this.token]);
    } catch (err) {
      console.warn('survey lease will expire on its own', this.key, err);
    }
  }
}

async function adjustToDatum(corners: [number, number][]) {
  const res = await fetch(`${process.env.GEODESY_URL}/adjust`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ datum: 'ETRS89', corners }),
    signal: AbortSignal.timeout(12_000),
  });
  if (!res.ok) throw new Error(`geodesy service answered ${res.status}`);
  return (await res.json()) as { corners: [number, number][]; areaM2: number };
}

export async function POST(request: Request) {
  const parsed = Body.safeParse(await request.json().catch(() => null));
  if (!parsed.success) return NextResponse.json({ error: parsed.error.flatten() }, { status: 400 });
  const { surveyId, corners } = parsed.data;

  try {
    await using lease = await SurveyLease.take(surveyId);
    if (!lease) return NextResponse.json({ error: 'survey is being processed' }, { status: 423 });

    const survey = await prisma.burialSurvey.findUnique({
      where: { id: surveyId },
      select: { id: true, revision: true, sealedAt: true },
    });
    if (!survey) return NextResponse.json({ error: 'not found' }, { status: 404 });
    if (survey.sealedAt) return NextResponse.json({ error: 'survey is sealed' }, { status: 409 });

    const adjusted = await adjustToDatum(corners);
    const { count } = await prisma.burialSurvey.updateMany({
      where: { id: surveyId, revision: survey.revision, sealedAt: null },
      data: {
        outline: adjusted.corners,
        areaM2: adjusted.areaM2,
        revision: { increment: 1 },
      },
    });
    if (count === 0) return NextResponse.json({ error: 'survey was changed' }, { status: 409 });
    return NextResponse.json({ surveyId, areaM2: adjusted.areaM2, revision: survey.revision + 1 });
  } catch (err) {
    console.error('burial survey failed', surveyId, err);
    return NextResponse.json({ error: 'temporarily unavailable' }, { status: 503 });
  }
}
