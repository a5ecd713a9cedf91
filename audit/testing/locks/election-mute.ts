import { EventEmitter } from 'node:events';
import type { Redis } from 'ioredis';

/** Says by an event that it is in charge, and by nothing else. */
export class MuteOffice extends EventEmitter {
  readonly #redis: Redis;

  constructor(redis: Redis) {
    super();
    this.#redis = redis;
  }

  start(): void {
    setInterval(() => {
      void this.#redis.set('office', String(process.pid), 'PX', 6_000, 'NX').then((it) => this.emit('asked', it));
    }, 1_000);
  }
}
