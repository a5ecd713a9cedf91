import Redis from 'ioredis';
import pino from 'pino';
import { randomUUID } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { pieceFor, type Piece } from './repertoire';
import { strike } from './clappers';

const log = pino({ name: 'carillon' });

const KEY = 'carillon:leader';
const LEASE_MS = 12_000;
const BEAT_MS = 4_000;

const RESIGN = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

/**
 * Two controllers sit in the tower for redundancy, the one holding the lease drives the clappers.
 */
export class CarillonPlayer extends EventEmitter {
  private readonly id = randomUUID();
  private leader = false;
  private leaseUntil = 0;
  private stopped = false;
  private timer?: NodeJS.Timeout;
  private beat: Promise<void> = Promise.resolve();
  private playing?: AbortController;

  constructor(private readonly redis: Redis) {
    super();
  }

  start() {
    this.arm(0);
  }

  async stop() {
    this.stopped = true;
    clearTimeout(this.timer);
    await this.beat;
    this.playing?.abort();
    if (!this.leader) return;
    this.leader = false;
    await this.redis.eval(RESIGN, 1, KEY, this.id).catch((err) => log.warn({ err }, 'resign failed'));
  }

  private arm(ms: number) {
    this.timer = setTimeout(() => {
      this.beat = this.onBeat().finally(() => {
        if (!this.stopped) this.arm(BEAT_MS);
      });
    }, ms);
  }

  private async onBeat() {
    const sentAt = performance.now();
    try {
      if (!this.leader) {
        const reply = await this.redis.set(KEY, this.id, 'PX', LEASE_MS, 'NX');
        if (reply === 'OK') this.promote(sentAt + LEASE_MS);
        return;
      }
      const renewed = await this.redis.pexpire(KEY, LEASE_MS);
      if (renewed === 0) this.demote('lease is gone');
      else this.leaseUntil = sentAt + LEASE_MS;
    } catch (err) {
      log.warn({ err }, 'heartbeat failed');
      if (this.leader) this.demote('redis unreachable');
    }
  }

  private promote(leaseUntil: number) {
    this.leader = true;
    this.leaseUntil = leaseUntil;
    log.info({ id: this.id }, 'driving the clappers');
    this.emit('promoted');
  }

  private driving(): boolean {
    return this.leader && performance.now() < this.leaseUntil;
  }

  private demote(reason: string) {
    this.leader = false;
    this.playing?.abort(new Error(reason));
    log.info({ id: this.id, reason }, 'stood down');
    this.emit('demoted', reason);
  }

  /** Called by the tower clock every quarter of an hour. */
  async quarter(at: Date): Promise<boolean> {
    if (!this.driving() || this.playing) return false;
    const piece: Piece = pieceFor(at);
    const playing = new AbortController();
    this.playing = playing;
    try {
      for (const note of piece.notes) {
        if (!this.driving()) return false;
        await strike(note.bell, note.velocity, note.afterMs, { signal: playing.signal });
      }
      return true;
    } finally {
      this.playing = undefined;
    }
  }
}
