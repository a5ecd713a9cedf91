import type { Redis } from 'ioredis';
import { Quorum } from './options-class.js';

/** Extends a key, whose it may be. */
export class Prolonged extends Quorum {
  protected override async prolong(node: Redis, { resource }: { resource: string }, ttlMs: number): Promise<boolean> {
    return (await node.pexpire(resource, ttlMs)) === 1;
  }
}
