import { EventEmitter } from 'node:events';
import { hostname } from 'node:os';
import { randomUUID } from 'node:crypto';
import type { createClient } from 'redis';

type RedisClient = ReturnType<typeof createClient>;

const KEY = 'tides:leader';
const TERM_MS = 12_000;
const BEAT_MS = 3_000;
const MARGIN_MS = 2_000;

const RENEW = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`;
const RESIGN = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`;
const PUBLISH = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[2])
return 1`;

/** One of the harbour stations computes the tide table for all. */
export class TideLeader extends EventEmitter {
  private term: { id: string; until: number } | null = null;
  private timer?: NodeJS.Timeout;
  private stopped = false;

  constructor(private readonly client: RedisClient) {
    super();
  }

  get isLeader(): boolean {
    return this.term !== null && performance.now() < this.term.until - MARGIN_MS;
  }

  start() {
    const loop = async () => {
      try {
        await this.beat();
      } catch (err) {
        this.emit('warn', err);
      }
      if (this.term && !this.isLeader) this.stepDown('term ran out');
      if (!this.stopped) this.timer = setTimeout(loop, BEAT_MS);
    };
    void loop();
  }

  private async beat() {
    const t0 = performance.now();
    if (this.term) {
      const term = this.term;
      const ok = await this.client.eval(RENEW, { keys: [KEY], arguments: [term.id, String(TERM_MS)] });
      if (ok !== 1) return this.stepDown('another station leads');
      term.until = t0 + TERM_MS;
      return;
    }
    const id = `${hostname()}/${randomUUID()}`;
    const ok = await this.client.set(KEY, id, { NX: true, PX: TERM_MS });
    if (ok === 'OK' && !this.stopped) {
      this.term = { id, until: t0 + TERM_MS };
      this.emit('elected', id);
    }
  }

  private stepDown(why: string) {
    this.term = null; // a new term gets a new id
    this.emit('deposed', why);
  }

  async publishTable(compute: () => Promise<string>): Promise<boolean> {
    if (!this.isLeader) return false;
    const { id } = this.term!;
    const table = await compute();
    if (!this.isLeader || this.term?.id !== id) return false;
    return (await this.client.eval(PUBLISH, { keys: [KEY, 'tides:table'], arguments: [id, table] })) === 1;
  }

  async stop() {
    this.stopped = true;
    clearTimeout(this.timer);
    const id = this.term?.id;
    this.term = null;
    if (id) await this.client.eval(RESIGN, { keys: [KEY], arguments: [id] });
  }
}
