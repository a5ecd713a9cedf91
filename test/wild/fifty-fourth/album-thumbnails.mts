import { S3Client, PutObjectCommand } from '@aws-sdk/client-s3';
import axios from 'axios';
import Redis from 'ioredis';
import PQueue from 'p-queue';
import pino from 'pino';
import { v4 as uuid } from 'uuid';

const log = pino({ name: 'thumbnails' });
const s3 = new S3Client({ region: process.env.AWS_REGION, maxAttempts: 1 });
const redis = new Redis(process.env.REDIS_URL!);

const BUCKET = process.env.MEDIA_BUCKET!;
const STEP_TIMEOUT_MS = 10_000;
// 40 pictures in waves of 8, two steps of ten seconds each: 100 s at the worst
const MAX_PICTURES = 40;
const CONCURRENCY = 8;
const LOCK_TTL_MS = 180_000;

const UNLOCK = "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

export interface Album {
  id: string;
  revision: number;
  pictures: string[];
}

async function thumbnail(album: Album, picture: string): Promise<void> {
  const { data } = await axios.get<ArrayBuffer>(`${process.env.IMGPROXY_URL}/rs:fill:320:320/plain/s3://${BUCKET}/${picture}`, {
    responseType: 'arraybuffer',
    timeout: STEP_TIMEOUT_MS,
    signal: AbortSignal.timeout(STEP_TIMEOUT_MS),
  });
  await s3.send(
    new PutObjectCommand({
      Bucket: BUCKET,
      Key: `thumbs/${album.id}/${picture}.webp`,
      Body: Buffer.from(data),
      ContentType: 'image/webp',
      Metadata: { revision: String(album.revision) },
    }),
    { abortSignal: AbortSignal.timeout(STEP_TIMEOUT_MS) },
  );
}

async function renderAll(album: Album): Promise<string[]> {
  const queue = new PQueue({ concurrency: CONCURRENCY });
  const failed: string[] = [];
  for (const picture of album.pictures) {
    queue
      .add(() => thumbnail(album, picture))
      .catch((err) => {
        failed.push(picture);
        log.warn({ err, album: album.id, picture }, 'thumbnail failed');
      });
  }
  await queue.onEmpty();
  return failed;
}

/**
 * Edits of an album come in bursts. Runs for one album must not overlap, the
 * thumbnails of an older revision would overwrite the newer ones.
 */
export async function refreshAlbum(loadAlbum: (id: string) => Promise<Album>, id: string): Promise<boolean> {
  const key = `thumbs:album:${id}`;
  const token = uuid();
  const reply = await redis.set(key, token, 'PX', LOCK_TTL_MS, 'NX');
  if (reply !== 'OK') {
    log.debug({ album: id }, 'busy, the message comes back later');
    return false;
  }
  try {
    const album = await loadAlbum(id);
    if (album.pictures.length > MAX_PICTURES) {
      throw new RangeError(`album ${id} has ${album.pictures.length} pictures, split it first`);
    }
    const failed = await renderAll(album);
    await redis.hset(`thumbs:state:${id}`, {
      revision: album.revision,
      failed: JSON.stringify(failed),
      finishedAt: new Date().toISOString(),
    });
    log.info({ album: id, revision: album.revision, failed: failed.length }, 'album refreshed');
    return true;
  } finally {
    await redis.eval(UNLOCK, 1, key, token).catch((err) => log.warn({ err, key }, 'unlock failed'));
  }
}
