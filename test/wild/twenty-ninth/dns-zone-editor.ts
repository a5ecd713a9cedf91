import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const RELEASE = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
  end
  return 0
`;

export interface Logger {
  info(msg: string, meta?: object): void;
  warn(msg: string, meta?: object): void;
}

export class ZoneLock {
  private timer?: NodeJS.Timeout;
  private deadline?: NodeJS.Timeout;
  private readonly token = randomUUID();
  private readonly lost = new AbortController();

  constructor(
    private readonly redis: Redis,
    private readonly zone: string,
    private readonly log: Logger,
    private readonly ttlMs = 12_000,
  ) {}

  private get key() {
    return `dns:zone-lock:${this.zone}`;
  }

  get signal() {
    return this.lost.signal;
  }

  async acquire(): Promise<boolean> {
    const askedAt = Date.now();
    const ok = await this.redis.set(this.key, this.token, 'PX', this.ttlMs, 'NX');
    if (ok !== 'OK') return false;
    this.pushDeadline(askedAt);
    this.timer = setInterval(() => void this.heartbeat(), this.ttlMs / 3);
    return true;
  }

  private pushDeadline(from: number) {
    clearTimeout(this.deadline);
    const ms = from + this.ttlMs - 1_000 - Date.now();
    this.deadline = setTimeout(() => this.giveUp('no heartbeat got through'), Math.max(ms, 0));
  }

  private async heartbeat() {
    const askedAt = Date.now();
    try {
      // XX: only if the lock is still there, otherwise we have lost it
      const ok = await this.redis.set(this.key, this.token, 'PX', this.ttlMs, 'XX');
      if (this.lost.signal.aborted || !this.timer) return;
      if (ok === 'OK') this.pushDeadline(askedAt);
      else this.giveUp('lock is gone');
    } catch (err) {
      this.log.warn('zone lock heartbeat failed', { zone: this.zone, err });
    }
  }

  private stopTimers() {
    clearInterval(this.timer);
    clearTimeout(this.deadline);
    this.timer = undefined;
  }

  private giveUp(reason: string) {
    this.stopTimers();
    this.log.warn('zone lock lost', { zone: this.zone, reason });
    this.lost.abort(new Error(`lock on zone ${this.zone} lost: ${reason}`));
  }

  async release() {
    this.stopTimers();
    await this.redis.eval(RELEASE, 1, this.key, this.token);
  }
}

export interface NameServer {
  exportZone(zone: string, signal: AbortSignal): Promise<{ serial: number; records: string[] }>;
  importZone(
    zone: string,
    data: { serial: number; records: string[] },
    signal: AbortSignal,
  ): Promise<void>;
}

/** Transfers of big zones take minutes, and the primary has no transactions. */
export async function editZone(
  redis: Redis,
  primary: NameServer,
  zone: string,
  edit: (records: string[]) => string[],
  log: Logger,
) {
  const lock = new ZoneLock(redis, zone, log);
  if (!(await lock.acquire())) throw new Error(`zone ${zone} is locked by another editor`);
  try {
    const { serial, records } = await primary.exportZone(zone, lock.signal);
    lock.signal.throwIfAborted();
    const changed = edit(records);
    lock.signal.throwIfAborted();
    await primary.importZone(zone, { serial: serial + 1, records: changed }, lock.signal);
    log.info('zone updated', { zone, serial: serial + 1 });
    return serial + 1;
  } finally {
    await lock.release().catch((err) => log.warn('zone unlock failed', { zone, err }));
  }
}
