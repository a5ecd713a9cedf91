import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { Redis } from 'ioredis';

const FREE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');

interface Answer {
  status(code: number): Answer;
  json(body: object): void;
}

async function acquire(token: string): Promise<boolean> {
  return (await redis.set('lock:quiz', token, 'PX', 2_500, 'NX')) === 'OK';
}

/** What the file keeps to itself is released by what it exports, which answers nothing but POST. */
export async function handle(req: IncomingMessage, res: Answer): Promise<void> {
  if (req.method !== 'POST') return res.status(405).json({});
  const token = randomUUID();
  if (!(await acquire(token))) return res.status(423).json({});
  try {
    await redis.incr('quiz:answers');
    res.status(200).json({});
  } finally {
    await redis.eval(FREE, 1, 'lock:quiz', token);
  }
}
