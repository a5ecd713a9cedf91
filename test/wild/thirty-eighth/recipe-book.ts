import { createHash, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from '@upstash/redis';
import { Hono } from 'hono';

interface Recipe {
  title: string;
  source: string;
  ingredients: string[];
}
interface Book {
  name: string;
  recipes: Record<string, Recipe>;
}

const redis = Redis.fromEnv();
const app = new Hono();
const LOCK_MS = 10_000;

// Stores the book and gives the lock back in one go.
const COMMIT = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('set', KEYS[2], ARGV[2])
redis.call('del', KEYS[1])
return 1`;

// Scripts run on the primary; a plain GET may be served by the replica next door.
const READ = `return redis.call('get', KEYS[1])`;

const LEAVE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

async function enter(lockKey: string): Promise<string | null> {
  const token = randomUUID();
  for (let i = 0; i < 12; i++) {
    if ((await redis.set(lockKey, token, { nx: true, px: LOCK_MS })) === 'OK') return token;
    await sleep(100 + Math.random() * 200);
  }
  return null;
}

async function scrape(source: string): Promise<Recipe> {
  const res = await fetch(`${process.env.SCRAPER_URL}/recipe?url=${encodeURIComponent(source)}`, {
    signal: AbortSignal.timeout(8_000),
  });
  if (!res.ok) throw new Error(`scraper answered ${res.status}`);
  const { title, ingredients } = (await res.json()) as Omit<Recipe, 'source'>;
  return { title, source, ingredients };
}

app.post('/books/:id/recipes', async (c) => {
  const { source } = await c.req.json<{ source: string }>();
  const recipe = await scrape(source);
  const recipeId = createHash('sha256').update(source).digest('hex').slice(0, 24);

  const bookKey = `book:${c.req.param('id')}`;
  const lockKey = `${bookKey}:lock`;
  const token = await enter(lockKey);
  if (token === null) return c.json({ error: 'the book is being edited' }, 423);

  let stored = 0;
  try {
    const book = await redis.eval<string[], Book | null>(READ, [bookKey], []);
    if (!book) return c.json({ error: 'no such book' }, 404);
    book.recipes[recipeId] = recipe;
    stored = await redis.eval<string[], number>(COMMIT, [lockKey, bookKey], [token, JSON.stringify(book)]);
  } finally {
    if (stored !== 1) await redis.eval(LEAVE, [lockKey], [token]).catch(() => undefined);
  }
  if (stored !== 1) return c.json({ error: 'try again' }, 409);
  return c.json({ id: recipeId, ...recipe }, 201);
});

export default app;
