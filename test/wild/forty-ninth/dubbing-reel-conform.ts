import { Worker, type Job } from 'bullmq';
import Redis from 'ioredis';
import Redlock, { type RedlockAbortSignal } from 'redlock5';
import { and, eq } from 'drizzle-orm';
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { db } from '../db';
import { reels } from '../db/schema';
import { download, upload } from '../storage';
import { logger } from '../logger';

const run = promisify(execFile);

interface ConformJob {
  reelId: string;
  language: string;
}

const queueConnection = new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: null });
const lockConnection = new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: 1, commandTimeout: 2_000 });

const redlock = new Redlock([lockConnection], {
  driftFactor: 0.01,
  retryCount: 10,
  retryDelay: 300,
  retryJitter: 150,
  automaticExtensionThreshold: 10_000,
});
redlock.on('error', (err) => logger.debug({ err }, 'redlock'));

function assertHeld(signal: RedlockAbortSignal) {
  if (signal.aborted) throw signal.error ?? new Error('reel lock lost');
}

async function conform(job: ConformJob, signal: RedlockAbortSignal) {
  const [reel] = await db.select().from(reels).where(eq(reels.id, job.reelId));
  if (!reel) throw new Error(`reel ${job.reelId} does not exist`);

  const dir = await mkdtemp(join(tmpdir(), 'conform-'));
  try {
    const picture = await download(reel.pictureUri, dir, { signal });
    const stem = await download(reel.dialogueStems[job.language], dir, { signal });
    const out = join(dir, 'conformed.mov');
    await run(
      'ffmpeg',
      ['-y', '-loglevel', 'error', '-i', picture, '-i', stem, '-map', '0:v', '-map', '1:a', '-c:v', 'copy', out],
      { signal },
    );
    assertHeld(signal);

    // Every attempt uploads to its own object; the row decides which one counts.
    const uri = await upload(out, `reels/${reel.id}/${job.language}/${randomUUID()}.mov`, { signal });
    assertHeld(signal);

    const updated = await db
      .update(reels)
      .set({
        conformed: { ...reel.conformed, [job.language]: uri },
        revision: reel.revision + 1,
      })
      .where(and(eq(reels.id, reel.id), eq(reels.revision, reel.revision)))
      .returning({ id: reels.id });
    if (updated.length === 0) throw new Error(`reel ${reel.id} moved past revision ${reel.revision}`);
    return uri;
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

export const conformWorker = new Worker<ConformJob>(
  'reel-conform',
  async (job: Job<ConformJob>) =>
    redlock.using([`lock:reel:${job.data.reelId}`], 30_000, async (signal) => {
      logger.info({ jobId: job.id, ...job.data }, 'conforming reel');
      return conform(job.data, signal);
    }),
  { connection: queueConnection, concurrency: 2 },
);

conformWorker.on('failed', (job, err) => logger.warn({ jobId: job?.id, err }, 'conform failed'));
