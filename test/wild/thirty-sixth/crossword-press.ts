import { Redis } from '@upstash/redis';
import { randomUUID } from 'node:crypto';

const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL!,
  token: process.env.UPSTASH_REDIS_REST_TOKEN!,
});

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
else
  return 0
end`;

export class Busy extends Error {
  constructor(name: string) {
    super(`${name} is locked`);
    this.name = 'Busy';
  }
}

export async function exclusively<T>(name: string, ttlMs: number, work: () => Promise<T>): Promise<T> {
  const key = `lock:${name}`;
  const token = randomUUID();

  const reply = await redis.set(key, token, { nx: true, px: ttlMs });
  if (reply !== 'OK') throw new Busy(name);

  try {
    return work();
  } finally {
    await redis.eval(RELEASE, [key], [token]);
  }
}

interface Puzzle {
  number: number;
  grid: string[];
  clues: Record<string, string>;
}

async function cms<T>(path: string, init: RequestInit = {}): Promise<T> {
  const res = await fetch(`${process.env.CMS_URL}${path}`, {
    ...init,
    headers: { 'x-api-key': process.env.CMS_KEY ?? '', 'content-type': 'application/json' },
    signal: AbortSignal.timeout(10_000),
  });
  if (!res.ok) throw new Error(`cms ${path}: ${res.status}`);
  return (await res.json()) as T;
}

/**
 * Gives the next accepted grid the next number and puts it on the site.
 * Editors press the button from several desks.
 */
export async function publishNext(series: string): Promise<Puzzle | null> {
  return exclusively(`crossword:${series}`, 60_000, async () => {
    const [draft] = await cms<Array<{ id: string; grid: string[]; clues: Record<string, string> }>>(
      `/series/${series}/accepted?limit=1`,
    );
    if (!draft) return null;

    const { last } = await cms<{ last: number }>(`/series/${series}/last-number`);
    const puzzle: Puzzle = { number: last + 1, grid: draft.grid, clues: draft.clues };

    // takes the draft off the accepted list as well
    await cms(`/series/${series}/puzzles`, {
      method: 'POST',
      body: JSON.stringify({ ...puzzle, draft: draft.id }),
    });
    return puzzle;
  });
}
