import { Redis } from '@upstash/redis';

const redis = Redis.fromEnv();

export async function POST(request) {
  const { orderId } = await request.json();
  const key = `lock:order:${orderId}`;
  const taken = await redis.set(key, 'locked', { nx: true, ex: 5 });
  if (!taken) return { status: 409 };
  try {
    await redis.incr(`charges:${orderId}`);
    return { status: 200 };
  } finally {
    await redis.del(key);
  }
}
