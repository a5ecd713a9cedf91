import { execFile } from 'node:child_process';
import { createReadStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { DelayedError, Worker } from 'bullmq';
import Redis from 'ioredis';
import pino from 'pino';
import Redlock, { ExecutionError } from 'redlock5';
import { settings } from './settings';

const run = promisify(execFile);
const log = pino({ name: 'transcode' });
const s3 = new S3Client({ region: settings.region });

const connection = new Redis(settings.redisUrl, { maxRetriesPerRequest: null });
const lockClient = new Redis(settings.lockRedisUrl, { maxRetriesPerRequest: 1, commandTimeout: 2_000 });

const redlock = new Redlock([lockClient], { retryCount: 0, automaticExtensionThreshold: 12_000 });
redlock.on('error', (err) => log.debug({ err }, 'redlock'));

const PRESETS = [
  { name: '1080p', height: 1080, crf: 21 },
  { name: '720p', height: 720, crf: 23 },
  { name: '360p', height: 360, crf: 26 },
] as const;

interface Payload {
  videoId: string;
  revision: number;
  sourceUrl: string;
}

// The same video is queued again whenever an editor touches its trim marks. Two encodes of
// one video on one GPU box is what took us down in March.
export const worker = new Worker<Payload>(
  'transcode',
  async (job, token) => {
    const { videoId, revision, sourceUrl } = job.data;
    const dir = await mkdtemp(join(tmpdir(), 'enc-'));
    try {
      await redlock.using([`lock:video:${videoId}`], 30_000, async (signal) => {
        const stopIfLost = () => {
          if (signal.aborted) throw signal.error ?? new Error(`lost video ${videoId}`);
        };

        for (const [i, p] of PRESETS.entries()) {
          stopIfLost();
          const out = join(dir, `${p.name}.mp4`);
          await run(
            settings.ffmpeg,
            ['-y', '-i', sourceUrl, '-vf', `scale=-2:${p.height}`, '-crf', String(p.crf), out],
            { signal, maxBuffer: 32 * 1024 * 1024 },
          );
          stopIfLost();
          await s3.send(
            new PutObjectCommand({
              Bucket: settings.bucket,
              Key: `renditions/${videoId}/${revision}/${p.name}.mp4`,
              Body: createReadStream(out),
              ContentType: 'video/mp4',
            }),
            { abortSignal: signal },
          );
          await job.updateProgress(Math.round(((i + 1) / PRESETS.length) * 100));
        }
      });
    } catch (err) {
      if (err instanceof ExecutionError) {
        log.info({ videoId, revision }, 'video busy, putting the job back');
        await job.moveToDelayed(Date.now() + 15_000, token);
        throw new DelayedError();
      }
      throw err;
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
  },
  { connection, concurrency: settings.concurrency },
);

worker.on('failed', (job, err) => log.error({ jobId: job?.id, err }, 'transcode failed'));
