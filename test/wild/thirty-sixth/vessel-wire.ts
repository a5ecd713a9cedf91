import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import net from 'node:net';

type Reply = string | number | null;
type Waiter = { ok: (reply: Reply) => void; no: (err: Error) => void };

// The PLC gateway image has no room for a client library. Redis listens on the plant LAN.
class Wire {
  readonly #sock: net.Socket;
  readonly #waiting: Waiter[] = [];
  #buf: Buffer = Buffer.alloc(0);
  #dead: Error | null = null;

  private constructor(sock: net.Socket) {
    this.#sock = sock;
    sock.setTimeout(5_000, () => sock.destroy(new Error('redis went silent')));
    sock.on('data', (chunk: Buffer) => this.#feed(chunk));
    sock.on('error', (err) => this.#fail(err));
    sock.on('close', () => this.#fail(new Error('wire closed')));
  }

  static async open(): Promise<Wire> {
    const sock = net.connect(6379, process.env.REDIS_HOST ?? '10.40.0.2');
    const wire = new Wire(sock);
    try {
      await once(sock, 'connect', { signal: AbortSignal.timeout(3_000) });
    } catch (err) {
      wire.close();
      throw err;
    }
    return wire;
  }

  cmd(...args: Array<string | number>): Promise<Reply> {
    if (this.#dead) return Promise.reject(this.#dead);
    const body = args.map((a) => `$${Buffer.byteLength(String(a))}\r\n${a}\r\n`).join('');
    return new Promise((ok, no) => {
      this.#waiting.push({ ok, no });
      this.#sock.write(`*${args.length}\r\n${body}`);
    });
  }

  close(): void {
    this.#sock.destroy();
  }

  #fail(err: Error): void {
    this.#dead ??= err;
    for (const w of this.#waiting.splice(0)) w.no(this.#dead);
  }

  #feed(chunk: Buffer): void {
    this.#buf = Buffer.concat([this.#buf, chunk]);
    for (let eol = this.#buf.indexOf('\r\n'); eol >= 0; eol = this.#buf.indexOf('\r\n')) {
      const kind = this.#buf.toString('latin1', 0, 1);
      const head = this.#buf.toString('utf8', 1, eol);
      let end = eol + 2;
      let value: Reply | Error = kind === ':' ? Number(head) : kind === '-' ? new Error(head) : head;
      if (kind === '$') {
        const size = Number(head);
        if (size >= 0 && this.#buf.length < end + size + 2) return;
        value = size < 0 ? null : this.#buf.toString('utf8', end, end + size);
        if (size >= 0) end += size + 2;
      }
      this.#buf = this.#buf.subarray(end);
      const next = this.#waiting.shift();
      if (value instanceof Error) next?.no(value);
      else next?.ok(value);
    }
  }
}

const MINE = `if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end `;
const LONGER = MINE + `return redis.call('PEXPIRE', KEYS[1], ARGV[2])`;
const DROP = MINE + `return redis.call('DEL', KEYS[1])`;
const TTL = 12_000;
const STEP = 3_000;

export async function setVessel(vessel: string, setpoints: Record<string, number>): Promise<void> {
  const wire = await Wire.open();
  const key = `vessel:${vessel}`;
  const token = randomBytes(16).toString('hex');
  let until = performance.now() + TTL;
  try {
    if ((await wire.cmd('SET', key, token, 'NX', 'PX', TTL)) !== 'OK') throw new Error(`${vessel} is busy`);
    const pulse = setInterval(() => {
      const sent = performance.now();
      wire.cmd('EVAL', LONGER, 1, key, token, TTL).then(
        (kept) => (until = kept === 1 ? sent + TTL : 0),
        () => undefined,
      );
    }, 2_000);
    try {
      for (const [loop, value] of Object.entries(setpoints)) {
        if (until - performance.now() < STEP * 2) throw new Error(`lost ${vessel} before ${loop}`);
        const url = `http://plc.local/${vessel}/${loop}?sp=${value}`;
        const res = await fetch(url, { method: 'PUT', signal: AbortSignal.timeout(STEP) });
        if (!res.ok) throw new Error(`${vessel}/${loop}: plc said ${res.status}`);
      }
    } finally {
      clearInterval(pulse);
      await wire.cmd('EVAL', DROP, 1, key, token).catch(() => null);
    }
  } finally {
    wire.close();
  }
}
