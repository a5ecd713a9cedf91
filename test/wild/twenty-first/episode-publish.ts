import { Redis } from 'ioredis';
import Redlock from 'redlock5';
import type { Lock } from 'redlock5';

const LEASE_MS = 45_000;
const STEP_MS = 30_000;

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', { commandTimeout: 3_000 });
redis.on('error', (err) => console.warn('[redis]', err.message));

const redlock = new Redlock([redis], { driftFactor: 0.01, retryCount: 12, retryDelay: 250, retryJitter: 150 });
redlock.on('error', (err: Error) => console.debug('[redlock]', err.message));

export interface Episode {
  id: string;
  revision: number;
  state: 'draft' | 'ready' | 'published';
  renditions: string[];
}

export interface Cms {
  get(id: string): Promise<Episode>;
  /** Conditional on the state and the revision; false if either has moved on. */
  transition(
    id: string,
    change: { from: Episode['state']; to: Episode['state']; revision: number },
    signal: AbortSignal,
  ): Promise<boolean>;
}

export interface Cdn {
  /** Objects are stored below the revision, so an older run can't overwrite a newer one's. */
  put(path: string, rendition: string, signal: AbortSignal): Promise<void>;
}

/** A full lease in hand for the next step, or an exception. */
async function prolong(lock: Lock): Promise<Lock> {
  const next = await lock.extend(LEASE_MS);
  if (next.expiration - Date.now() < STEP_MS) {
    throw new Error('lease renewal was answered too late to start another step');
  }
  return next;
}

export async function publishEpisode(
  id: string,
  cms: Cms,
  cdn: Cdn,
): Promise<'published' | 'nothing-to-do' | 'superseded'> {
  let lock = await redlock.acquire([`episode:${id}:publish`], LEASE_MS);
  try {
    const episode = await cms.get(id);
    if (episode.state !== 'ready') return 'nothing-to-do';

    for (const rendition of episode.renditions) {
      lock = await prolong(lock);
      await cdn.put(`${id}/${episode.revision}/${rendition}`, rendition, AbortSignal.timeout(STEP_MS));
    }

    lock = await prolong(lock);
    const moved = await cms.transition(
      id,
      { from: 'ready', to: 'published', revision: episode.revision },
      AbortSignal.timeout(STEP_MS),
    );
    return moved ? 'published' : 'superseded';
  } finally {
    await lock.release().catch((err: unknown) => console.warn('[publish] lock left to expire', id, err));
  }
}
