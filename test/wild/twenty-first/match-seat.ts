import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { randomUUID } from 'node:crypto';

type Reply = string | number | null;
interface Waiter {
  resolve(value: Reply): void;
  reject(err: Error): void;
  timer: NodeJS.Timeout;
}

const COMMAND_TIMEOUT_MS = 400;
const SEAT_LOCK_MS = 8_000;
const UNLOCK = `if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) end return 0`;

/** Small pipelining client, one connection for the whole matchmaker. */
class RedisWire {
  #socket: Socket | null = null;
  #inbox = Buffer.alloc(0);
  #waiters: Waiter[] = [];
  #host: string;
  #port: number;

  constructor(host: string, port: number) {
    this.#host = host;
    this.#port = port;
  }

  call(...args: (string | number)[]): Promise<Reply> {
    const socket = (this.#socket ??= this.#dial());
    return new Promise((resolve, reject) => {
      // matchmaking is interactive: give up on a slow command instead of queueing players behind it
      const timer = setTimeout(() => {
        this.#waiters = this.#waiters.filter((w) => w !== waiter);
        reject(new Error(`${args[0]} timed out`));
      }, COMMAND_TIMEOUT_MS);
      const waiter: Waiter = { resolve, reject, timer };
      this.#waiters.push(waiter);
      const words = args.map(String);
      socket.write(`*${words.length}\r\n` + words.map((w) => `$${Buffer.byteLength(w)}\r\n${w}\r\n`).join(''));
    });
  }

  #dial(): Socket {
    const socket = connect({ host: this.#host, port: this.#port, noDelay: true });
    socket.on('data', (chunk: Buffer) => {
      this.#inbox = Buffer.concat([this.#inbox, chunk]);
      while (this.#takeOne());
    });
    socket.on('error', (err) => console.warn('redis wire', err.message));
    socket.on('close', () => {
      this.#socket = null;
      this.#inbox = Buffer.alloc(0);
      for (const w of this.#waiters.splice(0)) this.#settle(w, new Error('connection lost'));
    });
    return socket;
  }

  #takeOne(): boolean {
    const eol = this.#inbox.indexOf('\r\n');
    if (eol < 0) return false;
    const kind = String.fromCharCode(this.#inbox[0]);
    const head = this.#inbox.toString('utf8', 1, eol);
    let end = eol + 2;
    let value: Reply | Error = head;
    if (kind === ':') value = Number(head);
    else if (kind === '-') value = new Error(head);
    else if (kind === '$' && Number(head) < 0) value = null;
    else if (kind === '$') {
      end += Number(head) + 2;
      if (this.#inbox.length < end) return false;
      value = this.#inbox.toString('utf8', eol + 2, end - 2);
    }
    this.#inbox = this.#inbox.subarray(end);
    const waiter = this.#waiters.shift();
    if (waiter) this.#settle(waiter, value);
    return true;
  }

  #settle(waiter: Waiter, value: Reply | Error): void {
    clearTimeout(waiter.timer);
    if (value instanceof Error) waiter.reject(value);
    else waiter.resolve(value);
  }
}

const wire = new RedisWire(process.env.REDIS_HOST ?? '127.0.0.1', Number(process.env.REDIS_PORT ?? 6379));

export interface Lobby {
  roster(matchId: string): Promise<string[]>;
  saveRoster(matchId: string, players: string[]): Promise<void>;
}

export async function seatPlayer(lobby: Lobby, matchId: string, player: string, size = 10): Promise<boolean> {
  const key = `seat:${matchId}`;
  const token = randomUUID();
  const validUntil = performance.now() + SEAT_LOCK_MS;
  if ((await wire.call('SET', key, token, 'NX', 'PX', SEAT_LOCK_MS)) !== 'OK') return false;
  try {
    const players = await lobby.roster(matchId);
    if (players.includes(player)) return true;
    if (players.length >= size) return false;
    if (validUntil - performance.now() < 2_000) throw new Error('lobby too slow, seat not taken');
    await lobby.saveRoster(matchId, [...players, player]);
    return true;
  } finally {
    await wire.call('EVAL', UNLOCK, 1, key, token).catch((err) => console.warn('seat unlock', matchId, err));
  }
}
