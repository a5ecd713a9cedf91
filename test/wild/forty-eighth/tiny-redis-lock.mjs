// Redis lock without dependencies: just node:net and a bit of RESP.
import net from "node:net";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

const UNLOCK = 'if redis.call("get",KEYS[1])==ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end';

const encode = (args) =>
  `*${args.length}\r\n` + args.map((a) => `$${Buffer.byteLength(String(a))}\r\n${a}\r\n`).join("");

// Parses one reply at the start of buf, null when it is not complete yet.
function parse(buf) {
  const eol = buf.indexOf("\r\n");
  if (eol < 0) return null;
  const line = buf.toString("utf8", 1, eol);
  const end = eol + 2;
  switch (String.fromCharCode(buf[0])) {
    case "+":
      return { value: line, end };
    case "-":
      return { value: new Error(line), end };
    case ":":
      return { value: Number(line), end };
    case "$": {
      const len = Number(line);
      if (len === -1) return { value: null, end };
      if (buf.length < end + len + 2) return null;
      return { value: buf.toString("utf8", end, end + len), end: end + len + 2 };
    }
    default:
      throw new Error(`unsupported reply type ${buf[0]}`);
  }
}

export class TinyRedis {
  #buf = Buffer.alloc(0);
  #waiting = [];

  constructor(port = 6379, host = "127.0.0.1") {
    this.socket = net.connect({ port, host, noDelay: true });
    this.socket.on("data", (chunk) => this.#onData(chunk));
    this.socket.on("error", (err) => this.#failAll(err));
    this.socket.on("close", () => this.#failAll(new Error("connection closed")));
  }

  command(args, timeoutMs = 500) {
    return new Promise((resolve, reject) => {
      if (this.socket.destroyed) return reject(new Error("connection closed"));
      const entry = { resolve, reject };
      entry.timer = setTimeout(() => {
        this.#waiting = this.#waiting.filter((e) => e !== entry);
        reject(new Error(`${args[0]} timed out after ${timeoutMs} ms`));
      }, timeoutMs);
      this.#waiting.push(entry);
      this.socket.write(encode(args));
    });
  }

  #onData(chunk) {
    this.#buf = Buffer.concat([this.#buf, chunk]);
    let reply;
    while ((reply = parse(this.#buf))) {
      this.#buf = this.#buf.subarray(reply.end);
      const entry = this.#waiting.shift();
      if (!entry) continue;
      clearTimeout(entry.timer);
      if (reply.value instanceof Error) entry.reject(reply.value);
      else entry.resolve(reply.value);
    }
  }

  #failAll(err) {
    for (const entry of this.#waiting.splice(0)) {
      clearTimeout(entry.timer);
      entry.reject(err);
    }
  }
}

/** Runs fn(signal) under the lock; the signal fires well before the key expires. */
export async function withLock(redis, name, fn, { ttl = 20_000, wait = 3_000 } = {}) {
  const key = `lock:${name}`;
  const token = randomUUID();
  const giveUpAt = Date.now() + wait;

  while ((await redis.command(["SET", key, token, "NX", "PX", ttl])) !== "OK") {
    if (Date.now() > giveUpAt) throw new Error(`${name} is locked`);
    await sleep(50 + Math.random() * 50);
  }
  try {
    return await fn(AbortSignal.timeout(Math.floor(ttl * 0.7)));
  } finally {
    await redis.command(["EVAL", UNLOCK, 1, key, token]).catch((err) => console.warn(`unlock ${name}: ${err.message}`));
  }
}

// const redis = new TinyRedis();      // one connection for the whole process
// app.post("/orders/:id/ship", (req, res, next) =>
//   withLock(redis, `order:${req.params.id}`, (signal) => ship(req.params.id, signal)).then((r) => res.json(r), next));
