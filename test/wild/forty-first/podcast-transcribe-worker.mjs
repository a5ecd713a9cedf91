import { Worker, DelayedError } from 'bullmq';
import Redis from 'ioredis';
import OpenAI from 'openai';
import pg from 'pg';
import { randomUUID } from 'node:crypto';

const connection = new Redis(process.env.REDIS_URL, { maxRetriesPerRequest: null });
const redis = new Redis(process.env.REDIS_URL);
const openai = new OpenAI();
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0
`;

async function lock(key, seconds = 30) {
  const token = randomUUID();
  const ok = await redis.set(key, token, 'EX', seconds, 'NX');
  return ok === 'OK' ? token : null;
}

const unlock = (key, token) => redis.eval(RELEASE, 1, key, token);

// Episodes are 1-2 hours, cut in 10 minute pieces by the upload service.
// One piece is 20 to 40 seconds with whisper.
async function transcribe(episode) {
  const texts = [];
  for (const url of episode.chunk_urls) {
    const res = await openai.audio.transcriptions.create({
      file: await fetch(url),
      model: 'whisper-1',
      response_format: 'text',
    });
    texts.push(res);
  }
  return texts;
}

async function save(episode, texts) {
  const db = await pool.connect();
  try {
    await db.query('begin');
    for (const [i, text] of texts.entries()) {
      await db.query('insert into segments (episode_id, rev, n, body) values ($1, $2, $3, $4)', [episode.id, episode.rev, i, text]);
    }
    await db.query('update accounts set minutes_left = minutes_left - $2 where id = $1', [episode.account_id, episode.minutes]);
    await db.query('update episodes set transcribed_rev = $2 where id = $1', [episode.id, episode.rev]);
    await db.query('commit');
  } catch (err) {
    await db.query('rollback');
    throw err;
  } finally {
    db.release();
  }
}

// the RSS poller and the "transcribe now" button both enqueue, so the same episode can be in here twice
const worker = new Worker(
  'transcribe',
  async (job, jobToken) => {
    const key = `transcribe:${job.data.episodeId}`;
    const token = await lock(key);
    if (!token) {
      await job.moveToDelayed(Date.now() + 60_000, jobToken);
      throw new DelayedError();
    }
    try {
      const { rows } = await pool.query('select * from episodes where id = $1', [job.data.episodeId]);
      const episode = rows[0];
      if (!episode || episode.transcribed_rev === episode.rev) return;
      const texts = await transcribe(episode);
      await save(episode, texts);
    } finally {
      await unlock(key, token);
    }
  },
  { connection, concurrency: 4 },
);

worker.on('failed', (job, err) => console.error(job?.id, err));
