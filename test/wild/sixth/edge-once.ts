import { Redis } from '@upstash/redis';

const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL!,
  token: process.env.UPSTASH_REDIS_REST_TOKEN!,
  retry: { retries: 1, backoff: () => 100 },
});

const RELEASE = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end`;

export interface EdgeLock {
  acquired: boolean;
  release: () => Promise<void>;
}

const notAcquired: EdgeLock = { acquired: false, release: async () => {} };

/**
 * Short lock for edge functions.
 */
export async function edgeLock(name: string, seconds = 10): Promise<EdgeLock> {
  const key = `edge:${name}`;
  const token = crypto.randomUUID();

  const release = async () => {
    try {
      await redis.eval(RELEASE, [key], [token]);
    } catch (err) {
      console.warn(`edge lock ${name}: release failed`, err);
    }
  };

  try {
    const res = await redis.set(key, token, { nx: true, ex: seconds });
    return res === 'OK' ? { acquired: true, release } : notAcquired;
  } catch (err) {
    // Redis should never take the site down
    console.warn(`edge lock ${name}: redis is unavailable`, err);
    return { acquired: true, release };
  }
}

/** POST /api/publish */
export async function handlePublish(
  request: Request,
  publish: (slug: string, signal: AbortSignal) => Promise<void>,
): Promise<Response> {
  const { slug } = (await request.json()) as { slug: string };
  const signal = AbortSignal.timeout(9_000);
  const lock = await edgeLock(`publish:${slug}`, 10);
  if (!lock.acquired) {
    return Response.json({ error: 'already being published' }, { status: 409 });
  }
  try {
    await publish(slug, signal);
    return Response.json({ published: slug });
  } finally {
    await lock.release();
  }
}
