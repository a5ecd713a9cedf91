import { randomUUID } from 'node:crypto';
import { createConnection } from 'node:net';

const SERVICE = 'payments';

const RELEASE = [
  "local owner = redis.call('get', KEYS[1])",
  "if owner and string.match(owner, '^[^:]+') == string.match(ARGV[1], '^[^:]+') then",
  "  return redis.call('del', KEYS[1])",
  'end',
  'return 0',
].join('\n');

export class SocketLock {
  #socket;
  #pending = [];
  #received = '';

  constructor({ host = '127.0.0.1', port = 6379 } = {}) {
    this.host = host;
    this.port = port;
  }

  async acquire(resource, ttlMs) {
    const token = `${SERVICE}:${randomUUID()}`;
    const reply = await this.#send('SET', `lock:${resource}`, token, 'NX', 'PX', String(ttlMs));
    return reply === 'OK' ? token : null;
  }

  async release(resource, token) {
    return (await this.#send('EVAL', RELEASE, '1', `lock:${resource}`, token)) === 1;
  }

  close() {
    this.#socket?.end();
  }

  #send(...parts) {
    this.#connect();
    const text = parts.map((part) => `$${Buffer.byteLength(part)}\r\n${part}\r\n`).join('');
    return new Promise((resolve, reject) => {
      const socket = this.#socket;
      const timer = setTimeout(() => socket.destroy(new Error('no reply')), 2000);
      const settle = (how) => (value) => {
        clearTimeout(timer);
        how(value);
      };
      this.#pending.push({ resolve: settle(resolve), reject: settle(reject) });
      socket.write(`*${parts.length}\r\n${text}`);
    });
  }

  #connect() {
    if (this.#socket) return;
    const socket = createConnection(this.port, this.host);
    this.#socket = socket;
    this.#received = '';
    socket.setEncoding('utf8').on('data', (chunk) => this.#read(chunk));
    let cause = new Error('connection closed');
    socket.on('error', (error) => {
      cause = error;
    });
    socket.on('close', () => {
      if (this.#socket === socket) this.#socket = undefined;
      for (const { reject } of this.#pending.splice(0)) reject(cause);
    });
  }

  #read(chunk) {
    this.#received += chunk;
    for (let end = this.#received.indexOf('\r\n'); end >= 0; end = this.#received.indexOf('\r\n')) {
      const line = this.#received.slice(0, end);
      this.#received = this.#received.slice(end + 2);
      const next = this.#pending.shift();
      if (line[0] === '-') next?.reject(new Error(line.slice(1)));
      else if (line[0] === ':') next?.resolve(Number(line.slice(1)));
      else next?.resolve(line === '$-1' ? null : line.slice(1));
    }
  }
}
