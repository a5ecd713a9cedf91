import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { rename, rm } from 'node:fs/promises';
import { promisify } from 'node:util';
import { Queue, UnrecoverableError, Worker } from 'bullmq';
import express from 'express';
import { Redis } from 'ioredis';

const exec = promisify(execFile);
const connection = new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: null });
const locks = new Redis(process.env.REDIS_URL!);

const QUEUED_MS = 30 * 60_000;
const RUN_MS = 15 * 60_000;

const KEEP = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end`;
const FREE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;

interface Task {
  episodeId: string;
  token: string;
}

const lockKey = (episodeId: string) => `transcode:${episodeId}`;
const free = (task: Task) => locks.eval(FREE, 1, lockKey(task.episodeId), task.token);
const queue = new Queue<Task>('transcode', { connection });

export const app = express();

// The lock is taken here and travels with the job; the worker gives it back.
app.post('/episodes/:id/transcode', async (req, res) => {
  const task: Task = { episodeId: req.params.id, token: randomUUID() };
  const got = await locks.set(lockKey(task.episodeId), task.token, 'PX', QUEUED_MS, 'NX');
  if (got !== 'OK') {
    res.status(409).json({ error: 'already queued or running' });
    return;
  }
  try {
    const job = await queue.add('mp3', task, { attempts: 1, removeOnComplete: true, removeOnFail: 500 });
    res.status(202).json({ job: job.id });
  } catch (err) {
    await free(task).catch(() => undefined);
    throw err;
  }
});

export const worker = new Worker<Task>(
  'transcode',
  async ({ data }) => {
    const kept = await locks.eval(KEEP, 1, lockKey(data.episodeId), data.token, RUN_MS);
    if (kept !== 1) throw new UnrecoverableError('waited too long, lock is gone');

    const scratch = `/media/tmp/${data.token}.mp3`;
    try {
      await exec(
        'ffmpeg',
        ['-y', '-nostdin', '-loglevel', 'error', '-i', `/media/raw/${data.episodeId}.wav`, '-b:a', '128k', scratch],
        { timeout: 8 * 60_000, killSignal: 'SIGKILL' },
      );
      await rename(scratch, `/media/public/${data.episodeId}.mp3`);
    } finally {
      await rm(scratch, { force: true }).catch(() => undefined);
      await free(data).catch((err) => console.warn(`lock of ${data.episodeId} left to expire`, err));
    }
  },
  { connection, concurrency: 2, maxStalledCount: 0 },
);
