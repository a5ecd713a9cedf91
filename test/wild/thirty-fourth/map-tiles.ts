import { randomUUID } from 'node:crypto';
import { spawn } from 'node:child_process';
import { rename, rm } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

type Client = ReturnType<typeof createClient>;

const KEY = 'tiles:render-slots';
const SLOTS = Number(process.env.RENDER_SLOTS ?? 6);
const SLOT_TTL_MS = 120_000;
const RENDER_BUDGET_MS = 80_000;

// Members are slot holders, scores the server times at which they lapse.
const TAKE = `
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1`;

export class NoSlotError extends Error {}

/** At most SLOTS renderers at a time over all hosts. */
export class RenderSlots {
  constructor(private readonly client: Client, private readonly waitMs = 20_000) {}

  async run<T>(fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const holder = randomUUID();
    const giveUpAt = performance.now() + this.waitMs;
    try {
      for (;;) {
        const signal = AbortSignal.timeout(RENDER_BUDGET_MS);
        const taken = await this.client.eval(TAKE, {
          keys: [KEY],
          arguments: [holder, String(SLOTS), String(SLOT_TTL_MS)],
        });
        if (taken === 1) return await fn(signal);
        if (performance.now() >= giveUpAt) throw new NoSlotError('all renderers are busy');
        await sleep(200 + Math.random() * 300);
      }
    } finally {
      await this.client.zRem(KEY, holder).catch((err) => console.warn('slot not given back, it will lapse', err));
    }
  }
}

/** Resolves or rejects only when the child is gone. */
function runChild(command: string, args: string[], signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: 'ignore', signal, killSignal: 'SIGKILL' });
    let failure: Error | undefined;
    child.on('error', (err) => {
      failure = err;
      if (child.pid === undefined) reject(err);
    });
    child.on('close', (code, sig) => {
      if (failure) reject(failure);
      else if (code === 0) resolve();
      else reject(new Error(`${command} ended with ${code ?? sig}`));
    });
  });
}

export async function renderTile(slots: RenderSlots, style: string, z: number, x: number, y: number, out: string): Promise<void> {
  await slots.run(async (signal) => {
    const partial = `${out}.${randomUUID()}.part`;
    try {
      await runChild(process.env.RENDERER ?? 'render-tile', [style, `${z}/${x}/${y}`, '--output', partial], signal);
      await rename(partial, out);
    } finally {
      await rm(partial, { force: true });
    }
  });
}
