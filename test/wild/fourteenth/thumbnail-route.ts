import { Redis } from "@upstash/redis";

const redis = Redis.fromEnv();

const LEASE_MS = 20_000;
const RENDER_MS = 8_000;

const SAVE = `
if redis.call("GET", KEYS[1]) ~= ARGV[1] then return 0 end
redis.call("HSET", KEYS[2], ARGV[2], ARGV[3])
return 1`;

const LET_GO = `
if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end
return 0`;

function json(status: number, body: unknown, headers: Record<string, string> = {}): Response {
  return new Response(JSON.stringify(body), {
    status,
    headers: { "content-type": "application/json", ...headers },
  });
}

async function render(imageId: string, width: number): Promise<string> {
  const res = await fetch(`${process.env.RENDERER_URL}/render`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ imageId, width, format: "webp" }),
    signal: AbortSignal.timeout(RENDER_MS),
  });
  if (!res.ok) throw new Error(`renderer answered ${res.status}`);
  const { path } = (await res.json()) as { path: string };
  return `cdn:${path}`;
}

/** GET /thumbnails?image=…&width=… (edge function) */
export async function GET(request: Request): Promise<Response> {
  const url = new URL(request.url);
  const imageId = url.searchParams.get("image");
  const width = Number(url.searchParams.get("width"));
  if (!imageId || ![160, 320, 640].includes(width)) return json(400, { error: "bad request" });

  const shelf = `thumbs:{${imageId}}`;
  const lock = `thumbs:{${imageId}}:rendering:${width}`;
  const token = `r-${crypto.randomUUID()}`;

  try {
    const known = await redis.hget<string>(shelf, String(width));
    if (known) return json(200, { url: known });

    const got = await redis.set(lock, token, { nx: true, px: LEASE_MS });
    if (got !== "OK") return json(202, { status: "rendering" }, { "retry-after": "2" });

    try {
      const ready = await redis.hget<string>(shelf, String(width));
      if (ready) return json(200, { url: ready });

      const path = await render(imageId, width);
      const saved = await redis.eval<[string, string, string], number>(
        SAVE,
        [lock, shelf],
        [token, String(width), path],
      );
      if (saved !== 1) return json(202, { status: "rendering" }, { "retry-after": "2" });
      return json(200, { url: path });
    } finally {
      await redis
        .eval<[string], number>(LET_GO, [lock], [token])
        .catch((err: unknown) => console.warn("thumbnail lock stays until it expires", err));
    }
  } catch (err) {
    console.error("thumbnail", imageId, width, err);
    return json(503, { error: "try again later" }, { "retry-after": "5" });
  }
}
