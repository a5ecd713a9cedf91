import { Semaphore } from 'redis-semaphore';
import type { Redis } from 'ioredis';

/**
 * The GPU vendor allows four renders at once for our whole account. Slots are
 * shared by all API replicas.
 */
const SLOTS = 4;
const SLOT_TTL_MS = 60_000;
const RENDER_BUDGET_MS = 45_000;

export interface RenderVendor {
  /** Cancels the render at the vendor, and rejects, when the signal aborts. */
  render(scene: string, opts: { signal: AbortSignal }): Promise<{ url: string }>;
}

interface Req {
  body: { scene?: string };
}
interface Res {
  status(code: number): Res;
  set(header: string, value: string): Res;
  json(body: unknown): void;
}

export class NoSlotError extends Error {
  constructor() {
    super('all render slots are taken');
    this.name = 'NoSlotError';
  }
}

export async function renderScene(
  redis: Redis,
  vendor: RenderVendor,
  scene: string,
): Promise<{ url: string }> {
  // One object for each hold: each has an identifier of its own. A render is
  // cut off long before the slot's TTL, so there is nothing to refresh.
  const slot = new Semaphore(redis, 'render:vendor', SLOTS, {
    lockTimeout: SLOT_TTL_MS,
    refreshInterval: 0,
    acquireAttemptsLimit: 1,
  });

  const startedAt = Date.now();
  const acquired = await slot.tryAcquire();
  if (!acquired) throw new NoSlotError();

  try {
    const left = startedAt + RENDER_BUDGET_MS - Date.now();
    if (left <= 0) throw new NoSlotError();
    return await vendor.render(scene, { signal: AbortSignal.timeout(left) });
  } finally {
    try {
      await slot.release();
    } catch (err) {
      console.warn('render slot left to its TTL', err);
    }
  }
}

export function renderHandler(redis: Redis, vendor: RenderVendor) {
  return async (req: Req, res: Res): Promise<void> => {
    const scene = req.body.scene;
    if (!scene) {
      res.status(400).json({ error: 'scene is required' });
      return;
    }
    try {
      const { url } = await renderScene(redis, vendor, scene);
      res.status(200).json({ url });
    } catch (err) {
      if (err instanceof NoSlotError) {
        res.status(503).set('Retry-After', '15').json({ error: err.message });
        return;
      }
      console.error('render failed', err);
      res.status(502).json({ error: 'render failed' });
    }
  };
}
