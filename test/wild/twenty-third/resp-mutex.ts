// Tiny mutex client for the gateway, where we are not allowed any dependency.
import net from 'node:net';
import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';

type Reply = string | number | null;
type Waiter = { resolve(r: Reply): void; reject(e: Error): void; timer: NodeJS.Timeout };
export type Lease = { key: string; token: string; validUntil: number };

const host = process.env.REDIS_HOST ?? '127.0.0.1';
const port = Number(process.env.REDIS_PORT ?? 6379);
const ANSWER_WITHIN = 1_500;

const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

let socket: net.Socket | null = null;
let waiting: Waiter[] = [];

function encode(args: string[]): string {
  return `*${args.length}\r\n${args.map((a) => `$${Buffer.byteLength(a)}\r\n${a}\r\n`).join('')}`;
}

/** One reply from the front of buf, plus how many bytes it took; null if it is not complete yet. */
function decode(buf: Buffer): [Reply | Error, number] | null {
  const eol = buf.indexOf('\r\n');
  if (eol < 0) return null;
  const kind = String.fromCharCode(buf[0]);
  const line = buf.toString('utf8', 1, eol);
  const next = eol + 2;
  if (kind === '+') return [line, next];
  if (kind === '-') return [new Error(line), next];
  if (kind === ':') return [Number(line), next];
  if (kind !== '$') throw new Error(`unexpected reply ${kind}`);
  const size = Number(line);
  if (size < 0) return [null, next];
  if (buf.length < next + size + 2) return null;
  return [buf.toString('utf8', next, next + size), next + size + 2];
}

function connection(): net.Socket {
  if (socket) return socket;
  const s = net.connect({ host, port, noDelay: true });
  let buf: Buffer = Buffer.alloc(0);
  s.on('data', (chunk: Buffer) => {
    buf = Buffer.concat([buf, chunk]);
    try {
      for (let got = decode(buf); got; got = decode(buf)) {
        const [reply, used] = got;
        buf = buf.subarray(used);
        const w = waiting.shift();
        if (!w) continue;
        clearTimeout(w.timer);
        if (reply instanceof Error) w.reject(reply);
        else w.resolve(reply);
      }
    } catch (err) {
      s.destroy(err as Error);
    }
  });
  s.on('error', (err) => console.warn('redis socket:', err.message));
  s.on('close', () => {
    const orphans = waiting;
    waiting = [];
    socket = null;
    for (const w of orphans) {
      clearTimeout(w.timer);
      w.reject(new Error('connection lost'));
    }
  });
  socket = s;
  return s;
}

function send(...args: string[]): Promise<Reply> {
  const s = connection();
  return new Promise((resolve, reject) => {
    const w: Waiter = {
      resolve,
      reject,
      timer: setTimeout(() => {
        waiting.splice(waiting.indexOf(w), 1);
        reject(new Error(`${args[0]}: no answer within ${ANSWER_WITHIN} ms`));
      }, ANSWER_WITHIN),
    };
    waiting.push(w);
    s.write(encode(args));
  });
}

/** null: somebody else has it. Throws if redis could not be asked. */
export async function acquire(key: string, ttlMs = 30_000): Promise<Lease | null> {
  const token = randomUUID();
  const asked = performance.now();
  const reply = await send('SET', key, token, 'NX', 'PX', String(ttlMs));
  return reply === 'OK' ? { key, token, validUntil: asked + ttlMs * 0.9 } : null;
}

/** Ask before every write, and keep single writes under a second. */
export function held(lease: Lease): boolean {
  return performance.now() + 1_000 < lease.validUntil;
}

export async function release({ key, token }: Lease): Promise<boolean> {
  return (await send('EVAL', RELEASE, '1', key, token)) === 1;
}
