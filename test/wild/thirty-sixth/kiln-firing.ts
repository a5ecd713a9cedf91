import { Redis } from 'ioredis';
import Redlock from 'redlock5';
import { setTimeout as sleep } from 'node:timers/promises';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');

const redlock = new Redlock([redis], {
  retryCount: 3,
  retryDelay: 300,
  retryJitter: 100,
});

redlock.on('error', (err: Error) => {
  if (err.name === 'ResourceLockedError') return;
  console.error('redlock', err);
});

const TTL = 30_000;

interface Segment {
  celsius: number;
  perHour: number;
  soakMinutes: number;
}

interface Firing {
  id: string;
  kiln: string;
  segments: Segment[];
}

async function controller(kiln: string, path: string, body?: unknown): Promise<{ celsius: number }> {
  const res = await fetch(`http://${kiln}.studio.local${path}`, {
    method: body ? 'POST' : 'GET',
    headers: { 'content-type': 'application/json' },
    body: body ? JSON.stringify(body) : undefined,
    signal: AbortSignal.timeout(5_000),
  });
  if (!res.ok) throw new Error(`${kiln}${path}: ${res.status}`);
  return (await res.json()) as { celsius: number };
}

async function runSegment(kiln: string, segment: Segment): Promise<void> {
  await controller(kiln, '/ramp', { target: segment.celsius, rate: segment.perHour });
  while ((await controller(kiln, '/probe')).celsius < segment.celsius - 2) {
    await sleep(10_000);
  }
  await sleep(segment.soakMinutes * 60_000);
}

/** A firing runs for hours. Nobody else may send ramps to this kiln in the meantime. */
export async function fire(firing: Firing): Promise<void> {
  const lock = await redlock.acquire([`kiln:${firing.kiln}`], TTL);

  // keep the lock as long as the firing goes on
  const keeper = setInterval(() => {
    lock.extend(TTL).catch((err: Error) => {
      console.warn(`kiln ${firing.kiln}: extend failed, next try in ${TTL / 3000}s`, err.message);
    });
  }, TTL / 3);

  try {
    for (const [i, segment] of firing.segments.entries()) {
      console.info(`firing ${firing.id}: segment ${i + 1}/${firing.segments.length}`);
      await runSegment(firing.kiln, segment);
    }
    await controller(firing.kiln, '/off', {});
  } finally {
    clearInterval(keeper);
    await lock.release().catch((err: Error) => console.warn('release', err.message));
  }
}
