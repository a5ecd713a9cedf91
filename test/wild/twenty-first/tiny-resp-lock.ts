// Locks for the edge boxes, where we may not install packages. Speaks just enough RESP2.
import net from 'node:net';
import { randomBytes } from 'node:crypto';

type Reply = string | number | null;
type Waiter = { resolve(r: Reply): void; reject(e: Error): void; timer: NodeJS.Timeout };

function encode(args: string[]): string {
  return `*${args.length}\r\n` + args.map((a) => `$${Buffer.byteLength(a)}\r\n${a}\r\n`).join('');
}

/** First reply in the buffer and its size, or null if it is not complete yet. */
function decode(buf: Buffer): { value: Reply | Error; size: number } | null {
  const eol = buf.indexOf('\r\n');
  if (eol < 0) return null;
  const line = buf.toString('utf8', 1, eol);
  const next = eol + 2;
  switch (String.fromCharCode(buf[0]!)) {
    case '+':
      return { value: line, size: next };
    case '-':
      return { value: new Error(line), size: next };
    case ':':
      return { value: Number(line), size: next };
    case '$': {
      const length = Number(line);
      if (length < 0) return { value: null, size: next };
      if (buf.length < next + length + 2) return null;
      return { value: buf.toString('utf8', next, next + length), size: next + length + 2 };
    }
    default:
      throw new Error('unexpected reply type');
  }
}

export class RespConnection {
  #host: string;
  #port: number;
  #socket: net.Socket | null = null;
  #pending: Waiter[] = [];
  #buffer: Buffer = Buffer.alloc(0);

  constructor(host = process.env.REDIS_HOST ?? '127.0.0.1', port = Number(process.env.REDIS_PORT ?? 6379)) {
    this.#host = host;
    this.#port = port;
  }

  /** Commands are pipelined; replies come back in the order of the commands. */
  call(args: string[], timeoutMs = 400): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        resolve,
        reject,
        timer: setTimeout(() => {
          this.#pending = this.#pending.filter((w) => w !== waiter);
          reject(new Error(`${args[0]} timed out`));
        }, timeoutMs),
      };
      this.#socket ??= this.#open();
      this.#pending.push(waiter);
      this.#socket.write(encode(args));
    });
  }

  #open(): net.Socket {
    const socket = net.connect(this.#port, this.#host);
    socket.setNoDelay(true);
    socket.on('data', (chunk: Buffer) => {
      this.#buffer = Buffer.concat([this.#buffer, chunk]);
      try {
        for (let r = decode(this.#buffer); r; r = decode(this.#buffer)) {
          this.#buffer = this.#buffer.subarray(r.size);
          const waiter = this.#pending.shift();
          if (!waiter) continue;
          clearTimeout(waiter.timer);
          if (r.value instanceof Error) waiter.reject(r.value);
          else waiter.resolve(r.value);
        }
      } catch (err) {
        socket.destroy(err as Error);
      }
    });
    socket.on('error', () => {}); // 'close' follows
    socket.on('close', () => {
      const orphans = this.#pending;
      this.#socket = null;
      this.#pending = [];
      this.#buffer = Buffer.alloc(0);
      for (const w of orphans) {
        clearTimeout(w.timer);
        w.reject(new Error('connection closed'));
      }
    });
    return socket;
  }
}

const TTL_MS = 20_000;
const MARGIN_MS = 4_000;
const RELEASE = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

/** Resolves to undefined if someone else has the lock. `job` has to end when the signal fires. */
export async function withLock<T>(
  redis: RespConnection,
  name: string,
  job: (signal: AbortSignal) => Promise<T>,
): Promise<T | undefined> {
  const key = `edge-lock:${name}`;
  const token = randomBytes(16).toString('hex');

  const askedAt = performance.now();
  const reply = await redis.call(['SET', key, token, 'NX', 'PX', String(TTL_MS)]);
  if (reply !== 'OK') return undefined;

  const left = Math.floor(askedAt + TTL_MS - MARGIN_MS - performance.now());
  try {
    return await job(AbortSignal.timeout(Math.max(0, left)));
  } finally {
    await redis.call(['EVAL', RELEASE, '1', key, token]).catch(() => {});
  }
}
