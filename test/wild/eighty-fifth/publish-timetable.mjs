#!/usr/bin/env node
// usage: publish-timetable.mjs <schoolId> <changes.json>
import net from 'node:net';
import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import pg from 'pg';

const TTL = 60_000;

const TAKE = `
if not redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX') then return 0 end
local n = tonumber(redis.call('get', KEYS[2]) or '0')
if n < tonumber(ARGV[3]) then redis.call('set', KEYS[2], ARGV[3]) end
return redis.call('incr', KEYS[2])`;

const DROP = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;

function redis(url) {
  const { hostname, port } = new URL(url);
  const sock = net.connect({ host: hostname, port: Number(port) || 6379 });
  const waiting = [];
  let buf = '';
  let broken = null;
  const fail = (err) => {
    broken ??= err;
    while (waiting.length) waiting.shift().reject(broken);
  };
  sock.setEncoding('latin1');
  sock.on('error', fail);
  sock.on('close', () => fail(new Error('redis connection closed')));
  sock.on('data', (chunk) => {
    buf += chunk;
    // only one-line replies are expected here: +status, -error, :integer
    for (let end; (end = buf.indexOf('\r\n')) >= 0; ) {
      const line = buf.slice(0, end);
      buf = buf.slice(end + 2);
      const { resolve, reject } = waiting.shift();
      if (line[0] === '-') reject(new Error(line.slice(1)));
      else resolve(line[0] === ':' ? Number(line.slice(1)) : line.slice(1));
    }
  });
  return {
    call(...args) {
      if (broken) return Promise.reject(broken);
      return new Promise((resolve, reject) => {
        const timer = setTimeout(() => sock.destroy(new Error('redis timed out')), 5_000);
        waiting.push({
          resolve: (v) => (clearTimeout(timer), resolve(v)),
          reject: (e) => (clearTimeout(timer), reject(e)),
        });
        const parts = args.map(String).map((a) => `$${Buffer.byteLength(a)}\r\n${a}\r\n`);
        sock.write(`*${parts.length}\r\n${parts.join('')}`);
      });
    },
    end: () => sock.destroy(),
  };
}

const [schoolId, file] = process.argv.slice(2);
const changes = JSON.parse(await readFile(file, 'utf8'));
const db = new pg.Client({ connectionString: process.env.DATABASE_URL, statement_timeout: 10_000 });
await db.connect();
const r = redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
const token = randomBytes(16).toString('hex');
const lockKey = `timetable:{${schoolId}}:lock`;

try {
  const seen = await db.query('select fence from timetables where school_id = $1', [schoolId]);
  if (!seen.rowCount) throw new Error(`no timetable for school ${schoolId}`);

  const fence = await r.call('EVAL', TAKE, 2, lockKey, `timetable:{${schoolId}}:fence`, token, TTL, seen.rows[0].fence);
  if (!fence) throw new Error('someone else is publishing this timetable, try again in a minute');

  // the row is claimed first, so whoever held the lock before can no longer write
  const claimed = await db.query(
    'update timetables set fence = $2 where school_id = $1 and fence < $2 returning body',
    [schoolId, fence],
  );
  if (!claimed.rowCount) throw new Error('overtaken by a later publisher');

  const body = { ...claimed.rows[0].body };
  for (const { slot, lesson } of changes) {
    if (lesson === null) delete body[slot];
    else body[slot] = lesson;
  }

  const written = await db.query(
    'update timetables set body = $3, published_at = now() where school_id = $1 and fence = $2',
    [schoolId, fence, JSON.stringify(body)],
  );
  if (!written.rowCount) throw new Error('overtaken by a later publisher');
  console.log(`published ${changes.length} changes for ${schoolId} (#${fence})`);
} catch (err) {
  console.error(err.message);
  process.exitCode = 1;
} finally {
  await r.call('EVAL', DROP, 1, lockKey, token).catch(() => {});
  r.end();
  await db.end();
}
