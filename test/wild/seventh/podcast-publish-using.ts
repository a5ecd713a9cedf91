import Redis from 'ioredis';
import { once } from 'node:events';
import { randomUUID } from 'node:crypto';

const redis = new Redis(process.env.REDIS_URL as string);
const sub = redis.duplicate();

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', KEYS[1] .. ':free', '1')
  return 1
end
return 0`;

const WRITE = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[2])
return 1`;

class FeedLock implements AsyncDisposable {
  constructor(readonly key: string, readonly token: string) {}

  async write(target: string, body: string) {
    if ((await redis.eval(WRITE, 2, this.key, target, this.token, body)) !== 1) {
      throw new Error(`${this.key} is no longer ours`);
    }
  }

  async [Symbol.asyncDispose]() {
    await redis.eval(RELEASE, 1, this.key, this.token).catch(() => {});
  }
}

async function lockFeed(feed: string, ttl = 30_000, patience = 45_000): Promise<FeedLock> {
  const key = `podcast:{${feed}}:lock`;
  const channel = `${key}:free`;
  const deadline = Date.now() + patience;
  const token = randomUUID();

  if ((await redis.set(key, token, 'PX', ttl, 'NX')) === 'OK') return new FeedLock(key, token);

  await sub.subscribe(channel); // stays subscribed, feeds are few
  while (Date.now() < deadline) {
    // the wake-up is only a hint: messages get lost, holders crash, others are faster
    const nap = AbortSignal.timeout(1_000 + Math.random() * 1_000);
    const woken = waitFor(channel, nap);
    if ((await redis.set(key, token, 'PX', ttl, 'NX')) === 'OK') return new FeedLock(key, token);
    await woken;
  }
  throw new Error(`feed ${feed} stays locked`);
}

async function waitFor(channel: string, signal: AbortSignal): Promise<void> {
  try {
    for (;;) {
      const [from] = await once(sub, 'message', { signal });
      if (from === channel) return;
    }
  } catch {
    /* nap over */
  }
}

export async function publishEpisode(feed: string, episode: { guid: string; title: string; url: string }) {
  await using lock = await lockFeed(feed);
  const target = `podcast:{${feed}}:items`;
  const items = JSON.parse((await redis.get(target)) ?? '[]') as { guid: string }[];
  if (items.some((i) => i.guid === episode.guid)) return 'known';
  await lock.write(target, JSON.stringify([episode, ...items].slice(0, 300)));
  return 'published';
}
