import { randomBytes } from 'node:crypto';
import { connect, type Socket } from 'node:net';

type Reply = string | number | null;
type Waiter = { resolve(r: Reply): void; reject(e: Error): void };

/**
 * As much of RESP2 as we need (the gateway image must not have npm dependencies).
 * No reconnect: once it is broken every call rejects, and the supervisor restarts us.
 */
export class RespConnection {
  private buf: Buffer = Buffer.alloc(0);
  private readonly waiters: Waiter[] = [];
  private broken?: Error;

  constructor(private readonly socket: Socket) {
    socket.on('data', (chunk: Buffer) => {
      this.buf = Buffer.concat([this.buf, chunk]);
      this.drain();
    });
    socket.setKeepAlive(true, 10_000);
    socket.on('error', (e) => this.fail(e));
    socket.on('close', () => this.fail(new Error('redis connection closed')));
  }

  static fromEnv(env = process.env): RespConnection {
    return new RespConnection(connect(Number(env.REDIS_PORT ?? 6379), env.REDIS_HOST ?? '127.0.0.1'));
  }

  send(...args: string[]): Promise<Reply> {
    if (this.broken) return Promise.reject(this.broken);
    return new Promise((resolve, reject) => {
      this.waiters.push({ resolve, reject });
      const parts = args.map((a) => `$${Buffer.byteLength(a)}\r\n${a}\r\n`);
      this.socket.write(`*${args.length}\r\n${parts.join('')}`);
    });
  }

  private drain(): void {
    for (;;) {
      const eol = this.buf.indexOf('\r\n');
      if (eol < 0) return;
      const type = String.fromCharCode(this.buf[0]);
      const head = this.buf.toString('utf8', 1, eol);
      let value: Reply = type === ':' ? Number(head) : head;
      let end = eol + 2;
      if (type === '$') {
        const length = Number(head);
        if (length >= 0) {
          if (this.buf.length < end + length + 2) return;
          value = this.buf.toString('utf8', end, end + length);
          end += length + 2;
        } else value = null;
      }
      this.buf = this.buf.subarray(end);
      const waiter = this.waiters.shift();
      if (type === '-') waiter?.reject(new Error(head));
      else waiter?.resolve(value);
    }
  }

  private fail(e: Error): void {
    this.broken ??= e;
    for (const w of this.waiters.splice(0)) w.reject(e);
  }
}

const RELEASE = `if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0`;

async function lease(conn: RespConnection, key: string, ms: number): Promise<AsyncDisposable | null> {
  const token = randomBytes(18).toString('base64url');
  const answer = await conn.send('SET', key, token, 'NX', 'PX', String(ms));
  if (answer !== 'OK') return null;
  return {
    async [Symbol.asyncDispose]() {
      await conn.send('EVAL', RELEASE, '1', key, token).catch((e) => console.warn(`release ${key}: ${e.message}`));
    },
  };
}

export interface Reading { at: number; counter: number }
export interface ReadingRepo {
  latest(meterId: string): Promise<Reading | undefined>;
  append(meterId: string, rows: (Reading & { used: number })[]): Promise<void>;
}

/** Turns counter values into consumption; `busy` makes the gateway deliver again later. */
export async function ingest(conn: RespConnection, repo: ReadingRepo, meterId: string, batch: Reading[]) {
  await using held = await lease(conn, `meter:{${meterId}}:ingest`, 10_000);
  if (!held) return 'busy' as const;

  let last = await repo.latest(meterId);
  const rows: (Reading & { used: number })[] = [];
  for (const r of [...batch].sort((a, b) => a.at - b.at)) {
    if (last && r.at <= last.at) continue; // seen already
    rows.push({ ...r, used: last ? r.counter - last.counter : 0 });
    last = r;
  }
  if (rows.length > 0) await repo.append(meterId, rows);
  return 'stored' as const;
}
