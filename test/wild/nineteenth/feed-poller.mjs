import { randomBytes } from "node:crypto";
import { connect } from "node:net";
import { performance } from "node:perf_hooks";

const RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

const encode = (args) =>
  `*${args.length}\r\n` + args.map((a) => `$${Buffer.byteLength(String(a))}\r\n${a}\r\n`).join("");

/** Reads one reply at `at`; undefined while it is incomplete. */
function parse(buf, at) {
  const eol = buf.indexOf("\r\n", at);
  if (eol < 0) return undefined;
  const line = buf.toString("utf8", at + 1, eol);
  const next = eol + 2;
  switch (String.fromCharCode(buf[at])) {
    case "+": return { value: line, next };
    case "-": return { value: new Error(line), next };
    case ":": return { value: Number(line), next };
    case "$": {
      const len = Number(line);
      if (len < 0) return { value: null, next };
      if (buf.length < next + len + 2) return undefined;
      return { value: buf.toString("utf8", next, next + len), next: next + len + 2 };
    }
    default: throw new Error(`unexpected reply ${line}`);
  }
}

/** One connection per command: no pooling, no repeats, a fixed time limit. */
function command(url, args, timeoutMs = 1_500) {
  const { hostname, port, username, password, pathname } = new URL(url);
  const batch = [];
  if (password) batch.push(["AUTH", ...(username ? [decodeURIComponent(username)] : []), decodeURIComponent(password)]);
  if (pathname.length > 1) batch.push(["SELECT", pathname.slice(1)]);
  batch.push(args);
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port || 6379) });
    const timer = setTimeout(() => socket.destroy(new Error("redis: no answer in time")), timeoutMs);
    let buf = Buffer.alloc(0);
    socket.on("connect", () => socket.write(batch.map(encode).join("")));
    socket.on("data", (chunk) => {
      buf = Buffer.concat([buf, chunk]);
      try {
        let at = 0;
        for (let i = 0; i < batch.length; i++) {
          const reply = parse(buf, at);
          if (!reply) return;
          if (reply.value instanceof Error) throw reply.value;
          at = reply.next;
          if (i === batch.length - 1) resolve(reply.value);
        }
        socket.end();
      } catch (err) {
        socket.destroy(err);
      }
    });
    socket.on("error", reject);
    socket.on("close", () => {
      clearTimeout(timer);
      reject(new Error("redis: connection closed")); // no effect once resolved
    });
  });
}

/** Runs `poll(feedId, signal)` unless another worker is at this feed. Returns false if so. */
export async function pollExclusively(feedId, poll, { url = process.env.REDIS_URL, ttlMs = 30_000 } = {}) {
  const key = `feed:${feedId}:poll`;
  const token = randomBytes(16).toString("hex");
  const sentAt = performance.now();
  try {
    if ((await command(url, ["SET", key, token, "NX", "PX", ttlMs])) !== "OK") return false;
    const left = Math.floor(sentAt + ttlMs - 200 - performance.now());
    if (left <= 0) return false;
    await poll(feedId, AbortSignal.timeout(left));
    return true;
  } finally {
    // with an unknown outcome of SET too; only a key with our token is removed
    await command(url, ["EVAL", RELEASE, 1, key, token]).catch((err) => console.warn(`${key}: ${err.message}`));
  }
}
