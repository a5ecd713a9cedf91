import { Redis } from '@upstash/redis';
import { nanoid } from 'nanoid';

const redis = Redis.fromEnv();

const TTL = 25_000;
const RELEASE = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end`;
const PUBLISH = `
if redis.call("GET", KEYS[1]) ~= ARGV[1] then return 0 end
redis.call("SET", KEYS[2], ARGV[2])
return 1`;

const pause = (ms: number) => new Promise((r) => setTimeout(r, ms));
const release = (key: string, tag: string) => redis.eval(RELEASE, [key], [tag]);

async function obtain(key: string, tries: number): Promise<string | null> {
  for (let i = 0; i < tries; i++) {
    // new tag for each try: an earlier one whose answer got lost must not be mistaken for this one
    const tag = `g_${nanoid()}`;
    let got: 'OK' | string | null;
    try {
      got = await redis.set(key, tag, { nx: true, px: TTL });
    } catch (err) {
      // may or may not have been applied
      await release(key, tag).catch(() => 0);
      got = null;
    }
    if (got === 'OK') return tag;
    if (i === tries - 1) break;
    // full jitter, 200ms .. 3s
    await pause(Math.random() * Math.min(3_000, 200 * 2 ** i));
  }
  return null;
}

export async function publishGrades(courseId: string, compute: () => Promise<Record<string, number>>) {
  const key = `course:${courseId}:grading`;
  const tag = await obtain(key, 7);
  if (tag === null) throw new Error(`grading of ${courseId} is running elsewhere`);
  try {
    const grades = await compute();
    const done = await redis.eval(PUBLISH, [key, `course:${courseId}:grades`], [tag, JSON.stringify({ grades })]);
    if (done !== 1) throw new Error(`grading of ${courseId} took longer than the lease, nothing published`);
  } finally {
    await release(key, tag).catch((e) => console.warn('release', e));
  }
}
