// node solve-timetable.cjs <schoolId>
const { default: Redlock, ResourceLockedError } = require('redlock5');
const Redis = require('ioredis');
const { Pool } = require('pg');

const ROUNDS = 40;
const ROUND_MS = 5_000;
const LOCK_MS = 30_000;

const redis = new Redis(process.env.REDIS_URL);
const redlock = new Redlock([redis], { retryCount: 0 });
redlock.on('error', (err) => {
  if (!(err instanceof ResourceLockedError)) console.warn('redlock:', err.message);
});
const pool = new Pool({ statement_timeout: 5_000, connectionTimeoutMillis: 3_000 });

function clashes(plan) {
  const seen = new Map();
  let n = 0;
  for (const { slot, teacher, room } of plan) {
    for (const who of [`t${teacher}@${slot}`, `r${room}@${slot}`]) {
      n += seen.get(who) ?? 0;
      seen.set(who, (seen.get(who) ?? 0) + 1);
    }
  }
  return n;
}

function improve(plan, slots, ms) {
  let best = plan;
  let score = clashes(best);
  for (const end = Date.now() + ms; Date.now() < end && score > 0; ) {
    const next = best.slice();
    const i = Math.floor(Math.random() * next.length);
    next[i] = { ...next[i], slot: slots[Math.floor(Math.random() * slots.length)] };
    const s = clashes(next);
    if (s <= score) [best, score] = [next, s];
  }
  return { best, score };
}

async function solve(school) {
  const lock = await redlock.acquire([`timetable:solver:${school}`], LOCK_MS);
  try {
    const { rows: slots } = await pool.query('select id from slots where school_id = $1', [school]);
    const { rows: lessons } = await pool.query(
      'select id, slot_id as slot, teacher_id as teacher, room_id as room from lessons where school_id = $1',
      [school],
    );
    let plan = lessons;
    for (let round = 1; round <= ROUNDS; round++) {
      const { best, score } = improve(plan, slots.map((s) => s.id), ROUND_MS);
      plan = best;
      console.log(`round ${round}: ${score} clashes`);
      // throws when the lock is no longer ours, and then nothing is saved
      await lock.extend(LOCK_MS);
      if (score === 0) break;
    }
    await pool.query(
      `update lessons l set slot_id = p.slot
         from unnest($2::int[], $3::int[]) as p(id, slot)
        where l.school_id = $1 and l.id = p.id`,
      [school, plan.map((l) => l.id), plan.map((l) => l.slot)],
    );
  } finally {
    await lock.release().catch((err) => console.warn('release:', err.message));
  }
}

solve(process.argv[2])
  .catch((err) => {
    console.error(err instanceof ResourceLockedError ? 'already being solved' : err.message);
    process.exitCode = 1;
  })
  .finally(() => Promise.all([redis.quit(), pool.end()]));
