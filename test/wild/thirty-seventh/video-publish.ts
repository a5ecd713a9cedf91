import Redis from 'ioredis';
import { Mutex } from 'redis-semaphore';
import { Pool } from 'pg';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
const db = new Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 3_000 });

const ORIGIN = process.env.ORIGIN_URL ?? 'http://origin.internal';

interface VideoRow {
  id: string;
  status: 'draft' | 'published';
  version: number;
  manifest: string;
}

export type PublishResult = 'published' | 'already-published' | 'busy' | 'changed-meanwhile';

async function uploadManifest(video: VideoRow, signal: AbortSignal): Promise<void> {
  // the path contains the version, sending the same manifest again changes nothing
  const res = await fetch(`${ORIGIN}/manifests/${video.id}/${video.version}.m3u8`, {
    method: 'PUT',
    body: video.manifest,
    headers: { 'content-type': 'application/vnd.apple.mpegurl' },
    signal: AbortSignal.any([signal, AbortSignal.timeout(30_000)]),
  });
  if (!res.ok) throw new Error(`origin answered ${res.status}`);
}

export class VideoPublisher {
  async publish(videoId: string): Promise<PublishResult> {
    const lost = new AbortController();
    const mutex = new Mutex(redis, `video-publish:${videoId}`, {
      lockTimeout: 20_000,
      refreshInterval: 5_000,
      onLockLost: (err) => {
        console.error(`lock for video ${videoId} was lost`, err);
        lost.abort(err);
      },
    });

    if (!(await mutex.tryAcquire())) return 'busy';

    try {
      const found = await db.query<VideoRow>(
        'SELECT id, status, version, manifest FROM videos WHERE id = $1',
        [videoId],
      );
      const video = found.rows[0];
      if (!video) throw new Error(`no video ${videoId}`);
      if (video.status === 'published') return 'already-published';

      await uploadManifest(video, lost.signal);
      lost.signal.throwIfAborted();

      // editors bump the version, so this also refuses a manifest that is no longer current
      const updated = await db.query(
        `WITH done AS (
           UPDATE videos SET status = 'published', published_at = now()
            WHERE id = $1 AND version = $2 AND status = 'draft'
            RETURNING id, channel_id
         )
         INSERT INTO feed_events (video_id, channel_id, kind)
         SELECT id, channel_id, 'new-video' FROM done`,
        [video.id, video.version],
      );
      return updated.rowCount === 1 ? 'published' : 'changed-meanwhile';
    } finally {
      await mutex.release().catch((err) => console.warn('release', videoId, err));
    }
  }
}
