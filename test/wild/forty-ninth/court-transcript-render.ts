import { Worker, type Job } from 'bullmq';
import Redis from 'ioredis';
import Redlock from 'redlock4';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { HearingModel } from '../models/hearing';
import { fetchRecording } from '../recordings';
import { logger } from '../logger';

const exec = promisify(execFile);

interface TranscriptJob {
  hearingId: string;
  requestedBy: string;
}

const connection = new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: null });
const lockRedis = new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: 1 });

const redlock = new Redlock([lockRedis], {
  driftFactor: 0.01,
  retryCount: 5,
  retryDelay: 400,
  retryJitter: 200,
});
redlock.on('clientError', (err: Error) => logger.warn({ err }, 'transcript lock redis'));

const LOCK_TTL = 10_000;

async function transcribe(path: string): Promise<string> {
  const wav = `${path}.wav`;
  await exec('ffmpeg', ['-y', '-loglevel', 'error', '-i', path, '-ar', '16000', '-ac', '1', wav]);
  await exec('whisper-cli', ['-m', '/models/ggml-medium.bin', '-f', wav, '-otxt', '-of', path], {
    maxBuffer: 64 * 1024 * 1024,
  });
  return readFile(`${path}.txt`, 'utf8');
}

async function render(job: Job<TranscriptJob>): Promise<{ pages: number }> {
  const { hearingId, requestedBy } = job.data;
  const lock = await redlock.lock(`locks:transcript:${hearingId}`, LOCK_TTL);

  try {
    const hearing = await HearingModel.findById(hearingId);
    if (!hearing) throw new Error(`hearing ${hearingId} not found`);

    // Most hearings are two to four hours of audio spread over several channels.
    const sections: string[] = [];
    for (const channel of hearing.channels) {
      const file = await fetchRecording(channel.recordingUri);
      sections.push(`[${channel.speaker}]\n${await transcribe(file)}`);
      await job.updateProgress(Math.round((sections.length / hearing.channels.length) * 100));
    }

    const edition = (hearing.transcript?.edition ?? 0) + 1;
    const text = sections.join('\n\n');
    await HearingModel.updateOne(
      { _id: hearingId },
      {
        $set: { transcript: { edition, text, renderedAt: new Date(), requestedBy } },
        $push: { editions: { edition, requestedBy } },
      },
    );
    return { pages: Math.ceil(text.length / 1800) };
  } finally {
    await lock.unlock().catch((err: Error) => {
      logger.debug({ err, hearingId }, 'transcript lock was gone');
    });
  }
}

export const transcriptWorker = new Worker<TranscriptJob>('transcripts', render, {
  connection,
  concurrency: 3,
});

transcriptWorker.on('failed', (job, err) => {
  logger.error({ err, hearingId: job?.data.hearingId }, 'transcript failed');
});
