/**
 * Stocktake of the freezers of a seed bank.
 *
 * The box at each freezer runs this without any package installed, so the few Redis
 * commands that are needed are spoken over a plain socket.
 */
import net from 'node:net';
import { randomUUID } from 'node:crypto';

const LEASE_MS = 30_000;
const COMMAND_TIMEOUT_MS = 2_000;
const SCAN_TIMEOUT_MS = 5_000;

const RENEW = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;
const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

export class RespError extends Error { name = 'RespError'; }
export class FreezerBusyError extends Error { name = 'FreezerBusyError'; }
export class LeaseLostError extends Error { name = 'LeaseLostError'; }

/** @returns {[value: unknown, used: number] | null} null when the reply is not complete yet */
function parseReply(buf) {
  const eol = buf.indexOf('\r\n');
  if (eol === -1) return null;
  const [line, next] = [buf.toString('utf8', 1, eol), eol + 2];
  switch (String.fromCharCode(buf[0])) {
    case '+': return [line, next];
    case '-': return [new RespError(line), next];
    case ':': return [Number(line), next];
    case '$': {
      const length = Number(line);
      if (length === -1) return [null, next];
      if (buf.length < next + length + 2) return null;
      return [buf.toString('utf8', next, next + length), next + length + 2];
    }
    default: throw new RespError(`unexpected reply: ${line}`);
  }
}

export class RespConnection {
  #socket;
  #buffer = Buffer.alloc(0);
  #waiting = [];
  #closed = null;

  constructor({ host = '127.0.0.1', port = 6379 } = {}) {
    this.#socket = net.connect({ host, port });
    this.#socket.on('data', (chunk) => this.#read(chunk));
    this.#socket.on('error', (err) => this.#fail(err));
    this.#socket.on('close', () => this.#fail(new RespError('connection closed')));
  }

  /** A command that is not answered in time ends the connection: replies have no ids. */
  command(...args) {
    if (this.#closed) return Promise.reject(this.#closed);
    return new Promise((resolve, reject) => {
      const giveUp = () => this.#fail(new RespError(`${args[0]} timed out`));
      const timer = setTimeout(giveUp, COMMAND_TIMEOUT_MS);
      this.#waiting.push({ resolve, reject, timer });
      const parts = args.map((a) => `$${Buffer.byteLength(String(a))}\r\n${a}\r\n`);
      this.#socket.write(`*${args.length}\r\n${parts.join('')}`);
    });
  }

  close() { this.#fail(new RespError('connection closed')); }

  #read(chunk) {
    this.#buffer = Buffer.concat([this.#buffer, chunk]);
    try {
      for (let reply; this.#waiting.length > 0 && (reply = parseReply(this.#buffer)); ) {
        this.#buffer = this.#buffer.subarray(reply[1]);
        const { resolve, reject, timer } = this.#waiting.shift();
        clearTimeout(timer);
        (reply[0] instanceof RespError ? reject : resolve)(reply[0]);
      }
    } catch (err) {
      this.#fail(err);
    }
  }

  #fail(err) {
    this.#closed ??= err;
    this.#socket.destroy();
    for (const { reject, timer } of this.#waiting.splice(0)) {
      clearTimeout(timer);
      reject(err);
    }
  }
}

/**
 * @template T
 * @param {string} freezerId
 * @param {(renew: () => Promise<void>) => Promise<T>} fn calls `renew` before each step;
 *   it rejects with a LeaseLostError once the freezer is no longer ours
 */
export async function withFreezer(freezerId, fn, address) {
  const redis = new RespConnection(address);
  const key = `freezer:${freezerId}:lease`;
  const token = randomUUID();
  try {
    const reply = await redis.command('SET', key, token, 'NX', 'PX', LEASE_MS);
    if (reply !== 'OK') throw new FreezerBusyError(`freezer ${freezerId} is open elsewhere`);
    try {
      return await fn(async () => {
        const kept = await redis.command('EVAL', RENEW, 1, key, token, LEASE_MS);
        if (kept !== 1) throw new LeaseLostError(key);
      });
    } finally {
      await redis.command('EVAL', RELEASE, 1, key, token).catch(() => {}); // else it expires
    }
  } finally {
    redis.close();
  }
}

/** Has the scanner arm read box after box; one arm, so one stocktake per freezer. */
export function stocktake(freezerId, boxes) {
  return withFreezer(freezerId, async (renew) => {
    const counts = {};
    for (const box of boxes) {
      await renew();
      const url = `http://arm-${freezerId}.local/scan/${box}?limitMs=${SCAN_TIMEOUT_MS}`;
      const res = await fetch(url, { method: 'POST', signal: AbortSignal.timeout(SCAN_TIMEOUT_MS) });
      if (!res.ok) throw new Error(`box ${box}: scanner answered ${res.status}`);
      counts[box] = (await res.json()).packets;
    }
    return counts;
  });
}
