import { Redis } from "@upstash/redis";

interface Photo {
  id: string;
  uploaderId: string;
  status: "pending" | "approved" | "rejected";
}

export interface ModerationStore {
  photo(id: string): Promise<Photo | null>;
  /** One transaction: status = rejected, strikes of the uploader + 1. Returns the strikes. */
  reject(photo: Photo, by: string): Promise<number>;
}

export interface Context {
  redis: Redis;
  store: ModerationStore;
  notify(userId: string, template: string): Promise<void>;
}

class HttpError extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

const lockName = (photoId: string) => `moderation:photo:${photoId}`;

// The value is the reviewer, so the UI can show "Dana is looking at this photo"
async function lockPhoto(redis: Redis, photoId: string, reviewer: string) {
  const res = await redis.set(lockName(photoId), `reviewer/${reviewer}`, { nx: true, ex: 30 });
  if (res !== "OK") {
    throw new HttpError(409, "photo is being reviewed");
  }
}

// Only removes the lock if it is the reviewer's own
async function unlockPhoto(redis: Redis, photoId: string, reviewer: string) {
  await redis.eval(
    `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`,
    [lockName(photoId)],
    [`reviewer/${reviewer}`],
  );
}

/** POST /photos/:id/reject */
export default function rejectPhoto(ctx: Context) {
  return async (req: Request, params: { id: string }): Promise<Response> => {
    const reviewer = req.headers.get("x-reviewer");
    if (!reviewer) return new Response("who are you?", { status: 401 });

    try {
      await lockPhoto(ctx.redis, params.id, reviewer);

      const photo = await ctx.store.photo(params.id);
      if (!photo) throw new HttpError(404, "no such photo");
      if (photo.status !== "pending") throw new HttpError(410, "already decided");

      const strikes = await ctx.store.reject(photo, reviewer);
      await ctx.notify(photo.uploaderId, strikes >= 3 ? "suspended" : "photo-rejected");
      return Response.json({ strikes });
    } catch (err) {
      if (err instanceof HttpError) return new Response(err.message, { status: err.status });
      throw err;
    } finally {
      await unlockPhoto(ctx.redis, params.id, reviewer);
    }
  };
}
