import { execFile } from 'node:child_process';
import { mkdir, readFile, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Redis } from '@upstash/redis';
import { Hono } from 'hono';
import { stream } from 'hono/streaming';

const exec = promisify(execFile);
const redis = Redis.fromEnv();
const { SCRATCH = '/var/scratch', STEMS = '/srv/stems' } = process.env;
const TTL_MS = 180_000;
const WORK_MS = 150_000;
const PARTS = ['soprano', 'alto', 'tenor', 'bass'] as const;

const app = new Hono();

// the scratch folder of a rehearsal belongs to whoever holds its lock
app.get('/rehearsals/:id{[a-z0-9-]+}/mixdown', async (c) => {
  const id = c.req.param('id');
  const gain = Number(c.req.query('gain') ?? 0);
  const lock = await take(`choir:mixdown:${id}`);
  if (!lock) return c.json({ error: 'mixdown already running' }, 409);

  try {
    const takes = await readdir(join(STEMS, id));
    if (takes.length === 0) return c.json({ error: 'nothing recorded yet' }, 404);

    c.header('content-type', 'audio/flac');
    return stream(c, async (out) => {
      const dir = join(SCRATCH, id);
      await rm(dir, { recursive: true, force: true });
      await mkdir(dir, { recursive: true });
      for (const part of PARTS) {
        const files = takes.filter((t) => t.startsWith(part)).map((t) => join(STEMS, id, t));
        if (files.length > 0) await sox(lock.signal, ...mixArgs(files), join(dir, `${part}.flac`), 'gain', String(gain));
      }
      const parts = (await readdir(dir)).map((f) => join(dir, f));
      const full = join(dir, 'full.flac');
      await sox(lock.signal, ...mixArgs(parts), full);
      await out.write(await readFile(full));
    });
  } finally {
    await lock.release();
  }
});

export default app;

async function take(key: string) {
  const token = crypto.randomUUID();
  const signal = AbortSignal.timeout(WORK_MS);
  const ok = await redis.set(key, token, { nx: true, px: TTL_MS });
  if (ok !== 'OK') return null;
  const release = () =>
    redis.eval(RELEASE, [key], [token]).catch((err) => console.warn(`${key} left to expire: ${err}`));
  return { signal, release };
}

function mixArgs(files: string[]): string[] {
  return files.length > 1 ? ['-m', ...files] : files;
}

function sox(signal: AbortSignal, ...args: string[]) {
  return exec('sox', args, { signal, killSignal: 'SIGKILL' });
}

const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;
