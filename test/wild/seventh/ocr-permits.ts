import Redis from 'ioredis';

// GPU host takes three OCR jobs at a time, whichever worker they come from
const LIMIT = 3;
const KEY = 'ocr:permits:left';

const redis = new Redis(process.env.REDIS_URL!);

const TAKE = `
local left = tonumber(redis.call('GET', KEYS[1]) or ARGV[1])
if left <= 0 then return 0 end
redis.call('SET', KEYS[1], left - 1)
return 1`;

export async function withPermit<T>(job: () => Promise<T>, maxWaitMs = 30_000): Promise<T> {
  const stopAt = Date.now() + maxWaitMs;
  while ((await redis.eval(TAKE, 1, KEY, LIMIT)) !== 1) {
    if (Date.now() > stopAt) throw new Error('OCR host is busy');
    await new Promise((r) => setTimeout(r, 200 + Math.random() * 300));
  }
  try {
    return await job();
  } finally {
    await redis.incr(KEY);
  }
}

export async function ocrWorker(queue: { next(): Promise<{ id: string; page: Buffer } | null> }, host: { read(p: Buffer): Promise<string> }, save: (id: string, text: string) => Promise<void>) {
  for (let doc = await queue.next(); doc; doc = await queue.next()) {
    const { id, page } = doc;
    const text = await withPermit(() => host.read(page));
    await save(id, text);
  }
}
