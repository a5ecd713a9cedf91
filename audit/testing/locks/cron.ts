import { Redis } from 'ioredis';

const redis = new Redis(process.env.REDIS_URL ?? '');

export async function nightly(): Promise<void> {
  const first = await redis.set('cron:nightly', String(process.pid), 'EX', 3600, 'NX');
  if (first === null) return;
  await report();
}

async function report(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 2_000));
}
