import net from "node:net";
import { randomUUID } from "node:crypto";

type Reply = string | number | null;

/** Just enough RESP2 for SET, GET, HGET and EVAL; replies come back in the order of the commands. */
class RespClient {
  private readonly socket: net.Socket;
  private buffer: Buffer = Buffer.alloc(0);
  private waiting: Array<{ resolve: (r: Reply) => void; reject: (e: Error) => void; timer: NodeJS.Timeout }> = [];
  private failure: Error | null = null;

  constructor(host: string, port: number) {
    this.socket = net.createConnection({ host, port });
    this.socket.on("data", (chunk) => {
      this.buffer = Buffer.concat([this.buffer, chunk]);
      this.drain();
    });
    this.socket.on("error", (err) => this.fail(err));
    this.socket.on("close", () => this.fail(new Error("redis connection closed")));
  }

  send(...args: string[]): Promise<Reply> {
    if (this.failure) return Promise.reject(this.failure);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.fail(new Error(`${args[0]} timed out`)), 3_000);
      this.waiting.push({ resolve, reject, timer });
      this.socket.write(`*${args.length}\r\n` + args.map((a) => `$${Buffer.byteLength(a)}\r\n${a}\r\n`).join(""));
    });
  }

  close(): void {
    this.socket.end();
  }

  private fail(err: Error): void {
    this.failure ??= err;
    this.socket.destroy();
    for (const { reject, timer } of this.waiting.splice(0)) {
      clearTimeout(timer);
      reject(err);
    }
  }

  private drain(): void {
    for (;;) {
      const end = this.buffer.indexOf("\r\n");
      if (end < 0) return;
      const type = String.fromCharCode(this.buffer[0]);
      if (!"+-:$".includes(type)) return this.fail(new Error(`unexpected reply type ${type}`));
      const head = this.buffer.toString("utf8", 1, end);
      let next = end + 2;
      let value: Reply = head;
      if (type === ":") value = Number(head);
      if (type === "$") {
        const length = Number(head);
        if (length >= 0 && this.buffer.length < next + length + 2) return;
        value = length < 0 ? null : this.buffer.toString("utf8", next, next + length);
        if (length >= 0) next += length + 2;
      }
      this.buffer = this.buffer.subarray(next);
      const command = this.waiting.shift();
      if (!command) return this.fail(new Error(`reply without a command: ${head}`));
      clearTimeout(command.timer);
      if (type === "-") command.reject(new Error(head));
      else command.resolve(value);
    }
  }
}

const COMMIT = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[2])
redis.call('HSET', KEYS[3], ARGV[3], ARGV[4])
return 1`;
const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;
const LOCK_MS = 10_000;

export interface Guides {
  isAvailable(tourId: string, opts: { signal: AbortSignal }): Promise<boolean>;
}

export type Booking = { status: "booked"; seatsLeft: number } | { status: "full" | "cancelled" | "busy" };

export class TourSlots {
  /** `bookingId` comes from the caller, who may repeat a call that failed. */
  static async book(tourId: string, bookingId: string, party: number, guides: Guides): Promise<Booking> {
    const lockKey = `tour:${tourId}:lock`;
    const seatsKey = `tour:${tourId}:seats`;
    const bookingsKey = `tour:${tourId}:bookings`;
    const token = randomUUID();
    const redis = new RespClient(process.env.REDIS_HOST ?? "127.0.0.1", Number(process.env.REDIS_PORT ?? 6379));
    try {
      const locked = await redis.send("SET", lockKey, token, "NX", "PX", String(LOCK_MS));
      if (locked !== "OK") return { status: "busy" };
      try {
        const seats = Number((await redis.send("GET", seatsKey)) ?? 0);
        if ((await redis.send("HGET", bookingsKey, bookingId)) !== null) return { status: "booked", seatsLeft: seats };
        if (seats < party) return { status: "full" };
        const open = await guides.isAvailable(tourId, { signal: AbortSignal.timeout(4_000) });
        if (!open) return { status: "cancelled" };
        const seatsLeft = seats - party;
        // Refused by the script if the lock has run out meanwhile
        const keys = [lockKey, seatsKey, bookingsKey];
        const saved = await redis.send("EVAL", COMMIT, "3", ...keys, token, String(seatsLeft), bookingId, String(party));
        return saved === 1 ? { status: "booked", seatsLeft } : { status: "busy" };
      } finally {
        await redis.send("EVAL", RELEASE, "1", lockKey, token).catch((err) => console.warn("tour lock lapses", err));
      }
    } finally {
      redis.close();
    }
  }
}
