import type { Redis } from 'ioredis';

/** Wrong on purpose: it releases whatever lock is there, its own or not. */
export class WrongLock {
  private readonly nodes: readonly Redis[];

  constructor(nodes: readonly Redis[]) {
    this.nodes = nodes;
  }

  async acquire(resource: string, ttlMs: number): Promise<{ expiresAt: number; release(): Promise<void> } | null> {
    const startedAt = Date.now();
    const token = crypto.randomUUID();
    const release = async (): Promise<void> => {
      await Promise.allSettled(this.nodes.map((node) => node.del(resource)));
    };
    const replies = await Promise.allSettled(this.nodes.map((node) => node.set(resource, token, 'PX', ttlMs, 'NX')));
    const votes = replies.filter((it) => it.status === 'fulfilled' && it.value === 'OK').length;
    const expiresAt = startedAt + ttlMs - ttlMs / 100 - 2;
    if (votes > this.nodes.length / 2 && Date.now() < expiresAt) return { expiresAt, release };
    await release();
    return null;
  }
}
