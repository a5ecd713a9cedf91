// Consumer for the "uploads" stream: makes an mp4 out of whatever people upload and charges
// the minutes to their account. Run as many of these as you like.
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { hostname } from "node:os";
import Redis from "ioredis";
import { db } from "../db";

const STREAM = "uploads";
const GROUP = "transcoders";
const CONSUMER = `${hostname()}-${process.pid}`;
// an entry nobody has acked after this time is picked up by another consumer
const MIN_IDLE_MS = 90_000;
const LOCK_SECONDS = 60;

const redis = new Redis(process.env.REDIS_URL!);
const blocking = redis.duplicate(); // XREADGROUP BLOCK needs its own connection

const UNLOCK = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`;

interface Video {
  id: string;
  accountId: string;
  source: string;
  minutes: number;
}

type Entry = [id: string, fields: string[]];

// feature films take a good quarter of an hour on the small machines
async function ffmpeg(video: Video): Promise<void> {
  const out = `/mnt/media/${video.id}.mp4`;
  const child = spawn("ffmpeg", ["-y", "-i", video.source, "-c:v", "libx264", "-preset", "slow", out], {
    stdio: "ignore",
  });
  const [code] = await once(child, "exit");
  if (code !== 0) throw new Error(`ffmpeg exited with ${code} for ${video.id}`);
}

async function handle([entryId, fields]: Entry): Promise<void> {
  const video = JSON.parse(fields[1]) as Video;
  const lockKey = `transcode:${video.id}`;
  const token = randomBytes(16).toString("hex");

  // entries get redelivered, don't transcode (and charge!) the same video twice
  const locked = await redis.set(lockKey, token, "EX", LOCK_SECONDS, "NX");
  if (locked !== "OK") {
    console.log(`${video.id} is being transcoded by someone else`);
    return;
  }

  try {
    const done = await db.oneOrNone("SELECT 1 FROM renditions WHERE video_id = $1", [video.id]);
    if (!done) {
      await ffmpeg(video);
      await db.tx(async (t: typeof db) => {
        await t.none("INSERT INTO renditions (video_id, format) VALUES ($1, 'mp4')", [video.id]);
        await t.none("UPDATE accounts SET minutes_used = minutes_used + $2 WHERE id = $1", [
          video.accountId,
          video.minutes,
        ]);
      });
    }
    await redis.xack(STREAM, GROUP, entryId);
  } finally {
    await redis.eval(UNLOCK, 1, lockKey, token);
  }
}

async function nextEntry(): Promise<Entry | undefined> {
  const claimed = (await redis.xautoclaim(STREAM, GROUP, CONSUMER, MIN_IDLE_MS, "0-0", "COUNT", 1)) as [string, Entry[]];
  if (claimed[1].length > 0) return claimed[1][0];

  const fresh = (await blocking.xreadgroup(
    "GROUP", GROUP, CONSUMER, "COUNT", 1, "BLOCK", 5000, "STREAMS", STREAM, ">",
  )) as [string, Entry[]][] | null;
  return fresh?.[0][1][0];
}

async function main(): Promise<void> {
  await redis.xgroup("CREATE", STREAM, GROUP, "$", "MKSTREAM").catch((err: Error) => {
    if (!err.message.startsWith("BUSYGROUP")) throw err;
  });
  for (;;) {
    const entry = await nextEntry();
    if (!entry) continue;
    await handle(entry).catch((err) => console.error(`entry ${entry[0]} failed`, err));
  }
}

main().catch((err) => {
  console.error(err);
  process.exit(1);
});
