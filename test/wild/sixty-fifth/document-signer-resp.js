import net from 'node:net';
import { randomBytes } from 'node:crypto';
import { performance } from 'node:perf_hooks';

const CRLF = '\r\n';

/** Just enough of RESP2 for SET and EVAL; the signing host must not carry npm packages. */
export class RespConnection {
  constructor({ host = '127.0.0.1', port = 6379, timeoutMs = 2_000 } = {}) {
    this.timeoutMs = timeoutMs;
    this.pending = [];
    this.buffer = Buffer.alloc(0);
    this.closed = null;
    this.socket = net.createConnection({ host, port, noDelay: true });
    this.socket.on('data', (chunk) => this.onData(chunk));
    this.socket.on('error', (err) => this.fail(err));
    this.socket.on('close', () => this.fail(new Error('redis connection closed')));
  }

  fail(err) {
    if (this.closed) return;
    this.closed = err;
    this.socket.destroy();
    for (const p of this.pending.splice(0)) {
      clearTimeout(p.timer);
      p.reject(err);
    }
  }

  command(...args) {
    if (this.closed) return Promise.reject(this.closed);
    const parts = args.map((a) => Buffer.from(String(a)));
    const frame = [Buffer.from(`*${parts.length}${CRLF}`)];
    for (const p of parts) frame.push(Buffer.from(`$${p.length}${CRLF}`), p, Buffer.from(CRLF));
    return new Promise((resolve, reject) => {
      // Answers come in order, so one that is late makes the connection useless.
      const timer = setTimeout(() => this.fail(new Error(`redis ${args[0]} timed out`)), this.timeoutMs);
      this.pending.push({ resolve, reject, timer });
      this.socket.write(Buffer.concat(frame));
    });
  }

  onData(chunk) {
    this.buffer = Buffer.concat([this.buffer, chunk]);
    for (;;) {
      const reply = this.parse();
      if (reply === undefined) return;
      const p = this.pending.shift();
      if (!p) return this.fail(new Error('unexpected redis reply'));
      clearTimeout(p.timer);
      if (reply instanceof Error) p.reject(reply);
      else p.resolve(reply);
    }
  }

  parse() {
    const eol = this.buffer.indexOf(CRLF);
    if (eol < 0) return undefined;
    const line = this.buffer.toString('utf8', 1, eol);
    const kind = String.fromCharCode(this.buffer[0]);
    let end = eol + 2;
    let value;
    if (kind === '+') value = line;
    else if (kind === '-') value = new Error(line);
    else if (kind === ':') value = Number(line);
    else if (kind === '$') {
      const length = Number(line);
      if (length < 0) value = null;
      else {
        if (this.buffer.length < end + length + 2) return undefined;
        value = this.buffer.toString('utf8', end, end + length);
        end += length + 2;
      }
    } else value = new Error(`unsupported reply type ${kind}`);
    this.buffer = this.buffer.subarray(end);
    return value;
  }
}

const TTL_MS = 30_000;
const SIGN_TIMEOUT_MS = 8_000;
const STORE_TIMEOUT_MS = 4_000;
const STEP_MS = SIGN_TIMEOUT_MS + STORE_TIMEOUT_MS + 2_000;

const EXTEND = "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('PEXPIRE',KEYS[1],ARGV[2]) end return 0";
const RELEASE = "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) end return 0";

/**
 * Signs the waiting documents of one HSM slot, one after the other. A slot
 * has a single session, so a slot has a single signer.
 */
export async function signPending({ redis, hsm, store, slot, log }) {
  const key = `hsm:slot:${slot}:signer`;
  const token = randomBytes(18).toString('base64url');

  let expiresAt = performance.now() + TTL_MS;
  if ((await redis.command('SET', key, token, 'NX', 'PX', TTL_MS)) !== 'OK') return { busy: true, signed: 0 };

  const ensure = async () => {
    if (expiresAt - performance.now() > STEP_MS) return;
    const next = performance.now() + TTL_MS;
    if ((await redis.command('EVAL', EXTEND, 1, key, token, TTL_MS)) !== 1) {
      throw new Error(`${key} is held by another signer`);
    }
    expiresAt = next;
  };

  let signed = 0;
  try {
    for (const doc of await store.pending(slot, { timeoutMs: STORE_TIMEOUT_MS })) {
      await ensure();
      const signature = await hsm.sign(slot, doc.digest, { timeoutMs: SIGN_TIMEOUT_MS });
      if (expiresAt - performance.now() < STORE_TIMEOUT_MS) throw new Error(`${key} too old to store a signature`);
      // Conditional: only a document that is still unsigned takes the signature.
      await store.attach(doc.id, signature, { ifUnsigned: true, timeoutMs: STORE_TIMEOUT_MS });
      signed += 1;
    }
    return { busy: false, signed };
  } finally {
    await redis.command('EVAL', RELEASE, 1, key, token).catch((err) => log.warn({ err, key }, 'signer key left to its TTL'));
  }
}
