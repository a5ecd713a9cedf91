import { randomUUID } from "node:crypto";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

type Reply = string | number | null;
interface Waiter {
  resolve(reply: Reply): void;
  reject(err: Error): void;
}

/** Just enough RESP2 for a lock, so the migration image needs no dependencies. */
class RedisSocket {
  private buffer = Buffer.alloc(0);
  private waiting: Waiter[] = [];

  private constructor(private readonly socket: Socket) {
    socket.on("data", (chunk) => {
      this.buffer = Buffer.concat([this.buffer, Buffer.from(chunk)]);
      while (this.waiting.length > 0 && this.takeReply());
    });
    socket.on("error", (err) => this.failAll(err));
    socket.on("close", () => this.failAll(new Error("redis connection closed")));
  }

  static open(host: string, port: number): Promise<RedisSocket> {
    return new Promise((resolve, reject) => {
      const socket = connect({ host, port }, () => resolve(new RedisSocket(socket)));
      socket.once("error", reject);
    });
  }

  send(...args: string[]): Promise<Reply> {
    return new Promise<Reply>((resolve, reject) => {
      if (this.socket.destroyed) return reject(new Error("redis connection closed"));
      const timer = setTimeout(() => this.socket.destroy(new Error(`${args[0]} timed out`)), 5_000);
      this.waiting.push({
        resolve: (reply) => (clearTimeout(timer), resolve(reply)),
        reject: (err) => (clearTimeout(timer), reject(err)),
      });
      this.socket.write(`*${args.length}\r\n${args.map((a) => `$${Buffer.byteLength(a)}\r\n${a}\r\n`).join("")}`);
    });
  }

  close(): void {
    this.socket.end();
  }

  private takeReply(): boolean {
    const eol = this.buffer.indexOf("\r\n");
    if (eol < 0) return false;
    const line = this.buffer.toString("utf8", 1, eol);
    let end = eol + 2;
    let reply: Reply | Error;
    switch (this.buffer.toString("utf8", 0, 1)) {
      case "+": reply = line; break;
      case ":": reply = Number(line); break;
      case "-": reply = new Error(line); break;
      default: {
        const length = Number(line);
        if (length < 0) { reply = null; break; }
        if (this.buffer.length < end + length + 2) return false;
        reply = this.buffer.toString("utf8", end, end + length);
        end += length + 2;
      }
    }
    this.buffer = this.buffer.subarray(end);
    const waiter = this.waiting.shift()!;
    if (reply instanceof Error) waiter.reject(reply);
    else waiter.resolve(reply);
    return true;
  }

  private failAll(err: Error): void {
    for (const waiter of this.waiting.splice(0)) waiter.reject(err);
  }
}

export interface Migration { version: number; sql: string; timeoutMs: number }
export interface Database {
  appliedVersions(): Promise<number[]>;
  /** One transaction, cancelled after `timeoutMs`; records the version. */
  apply(migration: Migration): Promise<void>;
}

const KEY = "lock:schema-migrations";
const TTL_MS = 300_000;
const MARGIN_MS = 30_000;

async function unlock(redis: RedisSocket, token: string): Promise<void> {
  if ((await redis.send("GET", KEY)) === token) {
    await redis.send("DEL", KEY);
  }
}

export async function migrate(db: Database, migrations: Migration[]): Promise<void> {
  const redis = await RedisSocket.open(process.env.REDIS_HOST ?? "127.0.0.1", Number(process.env.REDIS_PORT ?? 6379));
  const token = randomUUID();
  try {
    let sentAt = performance.now();
    for (let tries = 0; (await redis.send("SET", KEY, token, "NX", "PX", String(TTL_MS))) !== "OK"; tries++) {
      if (tries >= 200) throw new Error("another instance is migrating for too long");
      await sleep(2_000);
      sentAt = performance.now();
    }
    try {
      const applied = new Set(await db.appliedVersions());
      for (const m of migrations.filter((x) => !applied.has(x.version)).sort((a, b) => a.version - b.version)) {
        if (performance.now() + m.timeoutMs > sentAt + TTL_MS - MARGIN_MS) throw new Error(`no time left for ${m.version}`);
        await db.apply(m);
      }
    } finally {
      await unlock(redis, token).catch((err) => console.warn("migration lock left to expire", err));
    }
  } finally {
    redis.close();
  }
}
