import { randomUUID } from 'node:crypto';
import { createConnection, type Socket } from 'node:net';

type Reply = string | number | null | Error;

interface Waiting {
  resolve(reply: string | number | null): void;
  reject(err: Error): void;
}

/** The few commands we need, without a dependency in the edge image. */
export class TinyRedis {
  private readonly socket: Socket;
  private readonly waiting: Waiting[] = [];
  private buffer = Buffer.alloc(0);
  private dead: Error | undefined;

  constructor(host: string, port: number, private readonly timeoutMs = 500) {
    this.socket = createConnection({ host, port });
    this.socket.setNoDelay(true);
    this.socket.on('data', (chunk: Buffer) => this.onData(chunk));
    this.socket.on('error', (err) => this.fail(err));
    this.socket.on('close', () => this.fail(new Error('connection closed')));
  }

  get alive(): boolean {
    return this.dead === undefined;
  }

  send(...args: (string | number)[]): Promise<string | number | null> {
    if (this.dead) return Promise.reject(this.dead);
    const parts = args.map((a) => `$${Buffer.byteLength(String(a))}\r\n${a}\r\n`);
    return new Promise((resolve, reject) => {
      const entry: Waiting = {
        resolve: (reply) => (clearTimeout(timer), resolve(reply)),
        reject: (err) => (clearTimeout(timer), reject(err)),
      };
      const timer = setTimeout(() => {
        // nobody is interested in this reply any more
        const at = this.waiting.indexOf(entry);
        if (at >= 0) this.waiting.splice(at, 1);
        reject(new Error(`${args[0]} timed out`));
      }, this.timeoutMs);
      this.waiting.push(entry);
      this.socket.write(`*${args.length}\r\n${parts.join('')}`);
    });
  }

  private fail(err: Error): void {
    this.dead ??= err;
    for (const entry of this.waiting.splice(0)) entry.reject(err);
    this.socket.destroy();
  }

  private onData(chunk: Buffer): void {
    this.buffer = Buffer.concat([this.buffer, chunk]);
    for (;;) {
      const reply = this.parse();
      if (reply === undefined) return;
      const entry = this.waiting.shift();
      if (reply instanceof Error) entry?.reject(reply);
      else entry?.resolve(reply);
    }
  }

  private parse(): Reply | undefined {
    const eol = this.buffer.indexOf('\r\n');
    if (eol < 0) return undefined;
    const type = String.fromCharCode(this.buffer[0] ?? 0);
    const line = this.buffer.toString('utf8', 1, eol);
    let end = eol + 2;
    let reply: Reply;
    if (type === '$') {
      const size = Number(line);
      if (size >= 0 && this.buffer.length < end + size + 2) return undefined;
      reply = size < 0 ? null : this.buffer.toString('utf8', end, end + size);
      if (size >= 0) end += size + 2;
    } else if (type === ':') reply = Number(line);
    else if (type === '-') reply = new Error(line);
    else reply = line;
    this.buffer = this.buffer.subarray(end);
    return reply;
  }
}

const RELEASE = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0";
const TTL_MS = 10_000;
const RENDER_MS = 7_000;

/** Renders a fragment on one edge node only; the others go on with the old one. */
export async function refreshFragment(
  redis: TinyRedis,
  name: string,
  render: (signal: AbortSignal) => Promise<string>,
): Promise<boolean> {
  const key = `fragment:${name}:lock`;
  const token = randomUUID();
  const signal = AbortSignal.timeout(RENDER_MS);
  try {
    const reply = await redis.send('SET', key, token, 'NX', 'PX', TTL_MS);
    if (reply !== 'OK') return false;
    const html = await render(signal);
    signal.throwIfAborted();
    await redis.send('SET', `fragment:${name}`, html);
    return true;
  } finally {
    // also after a timeout: the command may have been carried out
    await redis.send('EVAL', RELEASE, 1, key, token).catch((err) => console.warn('release', key, err));
  }
}
