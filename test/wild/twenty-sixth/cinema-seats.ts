import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

// Small RESP client: we only need SET and EVAL, that is no reason for a dependency.
export class MiniRedis {
  private socket?: Socket;

  constructor(private readonly host: string, private readonly port = 6379) {}

  async open(): Promise<this> {
    const socket = connect({ host: this.host, port: this.port, noDelay: true });
    socket.setEncoding('utf8');
    await once(socket, 'connect');
    socket.on('error', () => undefined);
    socket.on('close', () => (this.socket = undefined));
    this.socket = socket;
    return this;
  }

  async command(...args: (string | number)[]): Promise<string> {
    if (!this.socket) throw new Error('not connected to redis');
    const frame = args.map(String).map((a) => `$${Buffer.byteLength(a)}\r\n${a}\r\n`);
    this.socket.write(`*${frame.length}\r\n${frame.join('')}`);
    // all replies we use are a few bytes and fit one packet
    const [reply] = (await once(this.socket, 'data', { signal: AbortSignal.timeout(2_000) })) as [string];
    if (reply.startsWith('-')) throw new Error(reply.slice(1).trim());
    return reply;
  }
}

const FREE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;
const HOLD_MS = 30_000;

export interface SeatPlan {
  isSold(showId: string, seat: string): Promise<boolean>;
  markSold(showId: string, seat: string, bookingId: string): Promise<void>;
}

export interface Till {
  /** card payment, answers within ten seconds or throws */
  charge(cardToken: string, cents: number): Promise<{ bookingId: string }>;
}

export class SeatUnavailable extends Error {}

export class BoxOffice {
  /** One MiniRedis per process is plenty, pass the shared one. */
  constructor(
    private readonly redis: MiniRedis,
    private readonly plan: SeatPlan,
    private readonly till: Till,
  ) {}

  async sell(showId: string, seat: string, cardToken: string, cents: number): Promise<string> {
    const key = `seat:${showId}:${seat}`;
    const token = randomUUID();

    const reply = await this.redis.command('SET', key, token, 'NX', 'PX', HOLD_MS);
    if (!reply.startsWith('+OK')) throw new SeatUnavailable(`${seat} is being sold`);

    try {
      if (await this.plan.isSold(showId, seat)) throw new SeatUnavailable(`${seat} is sold`);
      const { bookingId } = await this.till.charge(cardToken, cents);
      await this.plan.markSold(showId, seat, bookingId);
      return bookingId;
    } finally {
      await this.redis.command('EVAL', FREE, 1, key, token).catch((err) => console.warn('seat not freed', key, err));
    }
  }
}
