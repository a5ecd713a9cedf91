import { Redis } from '@upstash/redis';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

export const maxDuration = 300;

const redis = Redis.fromEnv();
const VENDOR = process.env.SPEECH_API ?? 'https://speech.example.com/v1';

const unlockScript = redis.createScript<number>(`
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`);

async function acquire(key: string): Promise<string | null> {
  const token = randomUUID();
  const res = await redis.set(key, token, { nx: true, ex: 20 });
  return res === 'OK' ? token : null;
}

async function release(key: string, token: string): Promise<void> {
  await unlockScript.exec([key], [token]);
}

async function vendor<T>(path: string, init?: RequestInit): Promise<T> {
  const res = await fetch(VENDOR + path, {
    ...init,
    headers: { authorization: `Bearer ${process.env.SPEECH_KEY}`, 'content-type': 'application/json' },
    signal: AbortSignal.timeout(10_000),
  });
  if (!res.ok) throw new Error(`speech api ${path}: ${res.status}`);
  return (await res.json()) as T;
}

interface Job {
  id: string;
  state: 'queued' | 'running' | 'done' | 'failed';
  segments?: Array<{ at: number; text: string }>;
}

async function transcribe(audioUrl: string): Promise<NonNullable<Job['segments']>> {
  let job = await vendor<Job>('/jobs', { method: 'POST', body: JSON.stringify({ audioUrl }) });
  // an hour of audio takes two to four minutes
  for (let i = 0; i < 50 && job.state !== 'done'; i++) {
    if (job.state === 'failed') throw new Error(`job ${job.id} failed`);
    await sleep(5_000);
    job = await vendor<Job>(`/jobs/${job.id}`);
  }
  if (!job.segments?.length) throw new Error(`job ${job.id} did not finish`);
  return job.segments;
}

export async function POST(request: Request): Promise<Response> {
  const { episode, audioUrl } = (await request.json()) as { episode: string; audioUrl: string };
  const key = `transcribe:${episode}`;
  const text = `transcript:${episode}`;

  // the vendor bills by the minute, so only one transcription per episode
  const token = await acquire(key);
  if (!token) return Response.json({ status: 'already running' }, { status: 202 });

  try {
    if (await redis.exists(text)) return Response.json({ status: 'done' });
    const segments = await transcribe(audioUrl);
    await redis.rpush(text, ...segments.map((s) => JSON.stringify(s)));
    return Response.json({ status: 'done', segments: segments.length });
  } finally {
    await release(key, token);
  }
}
