import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

export interface TranscodeJob {
  id: string;
  assetId: string;
  sourceUri: string;
  profiles: string[];
}

interface Deps {
  redis: Redis;
  encoder: { encode(sourceUri: string, profile: string): AsyncIterable<Buffer> };
  bucket: {
    clear(prefix: string): Promise<void>;
    put(path: string, body: Buffer | string): Promise<void>;
  };
  assets: { setStatus(assetId: string, status: 'ready' | 'failed'): Promise<void> };
  log: { info(msg: string, ctx?: object): void; error(msg: string, ctx?: object): void };
}

const LOCK_MS = 20_000;
const EXTEND = `if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end`;
const RELEASE = `if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end`;

/** Throwing from the processor puts the job back on the queue (three attempts, two seconds apart). */
export function createTranscodeProcessor(deps: Deps, opts: { jobTimeoutMs: number } = { jobTimeoutMs: 15 * 60_000 }) {
  const { redis, encoder, bucket, assets, log } = deps;

  async function render(job: TranscodeJob, stillOurs: () => void): Promise<void> {
    const prefix = `vod/${job.assetId}`;
    const playlist: string[] = ['#EXTM3U'];
    await bucket.clear(prefix);
    for (const profile of job.profiles) {
      let n = 0;
      for await (const segment of encoder.encode(job.sourceUri, profile)) {
        stillOurs();
        await bucket.put(`${prefix}/${profile}/${n}.ts`, segment);
        n += 1;
      }
      playlist.push(`#EXT-X-STREAM-INF:NAME="${profile}",SEGMENTS=${n}`, `${profile}/index.m3u8`);
    }
    stillOurs();
    await bucket.put(`${prefix}/master.m3u8`, playlist.join('\n'));
    await assets.setStatus(job.assetId, 'ready');
  }

  return async function processTranscode(job: TranscodeJob): Promise<void> {
    const key = `transcode:lock:${job.assetId}`;
    const token = randomUUID();
    if ((await redis.set(key, token, 'PX', LOCK_MS, 'NX')) !== 'OK') {
      throw new Error(`asset ${job.assetId} is being transcoded already`);
    }

    let lost = false;
    const heartbeat = setInterval(() => {
      redis.eval(EXTEND, 1, key, token, LOCK_MS).then(
        (r) => { if (r !== 1) lost = true; },
        (err) => log.error('lock heartbeat failed', { err, jobId: job.id }),
      );
    }, LOCK_MS / 4);

    const stillOurs = () => {
      if (lost) throw new Error(`lost the lock on asset ${job.assetId}`);
    };

    let alarm: NodeJS.Timeout | undefined;
    const timeout = new Promise<never>((_, reject) => {
      alarm = setTimeout(() => reject(new Error(`transcode of ${job.assetId} timed out`)), opts.jobTimeoutMs);
    });

    try {
      // a hanging encoder must not hold the worker slot and the asset for ever
      await Promise.race([render(job, stillOurs), timeout]);
      log.info('asset ready', { assetId: job.assetId, jobId: job.id });
    } finally {
      clearTimeout(alarm);
      clearInterval(heartbeat);
      await redis.eval(RELEASE, 1, key, token).catch((err) => log.error('lock release failed', { err }));
    }
  };
}
