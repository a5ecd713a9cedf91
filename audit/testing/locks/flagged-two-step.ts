import { Mutex, redis } from './flagged.js';

/** Compares in JavaScript. */
export class Compared extends Mutex {
  protected override async free(token: string): Promise<void> {
    if ((await redis.get(this.key)) === token) await redis.del(this.key);
  }
}
