#!/usr/bin/env node
// usage: node scripts/rebuild-timetable.mjs --term 2025A --revision 17
// Speaks RESP itself because the ops image carries nothing but node and pg.
import net from 'node:net';
import { once } from 'node:events';
import { randomBytes } from 'node:crypto';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { planTerm } from './lib/planner.mjs';

const TTL_MS = 30_000;
const SAFETY_MS = 3_000;
const BATCH_BUDGET_MS = 8_000; // statement_timeout plus the way there and back
const COMMAND_TIMEOUT_MS = 2_000;

const OWNED = (cmd) => `if redis.call('get',KEYS[1])==ARGV[1] then return ${cmd} end return 0`;
const RENEW = OWNED(`redis.call('pexpire',KEYS[1],ARGV[2])`);
const RELEASE = OWNED(`redis.call('del',KEYS[1])`);

// One reply from the front of the buffer, or null if it has not arrived in full.
function readReply(buf) {
  const eol = buf.indexOf('\r\n');
  if (eol < 0) return null;
  const head = buf.toString('utf8', 1, eol);
  const next = eol + 2;
  switch (String.fromCharCode(buf[0])) {
    case '+': return { value: head, next };
    case '-': return { value: new Error(head), next };
    case ':': return { value: Number(head), next };
    case '$': {
      const len = Number(head);
      if (len < 0) return { value: null, next };
      if (buf.length < next + len + 2) return null;
      return { value: buf.toString('utf8', next, next + len), next: next + len + 2 };
    }
    default: throw new Error(`unexpected reply type ${buf[0]}`);
  }
}

class Resp {
  #socket; #buf = Buffer.alloc(0); #pending = []; #dead = null;
  constructor(socket) {
    this.#socket = socket;
    socket.on('data', (chunk) => {
      this.#buf = Buffer.concat([this.#buf, chunk]);
      try {
        for (let r; this.#buf.length && (r = readReply(this.#buf)); ) {
          this.#buf = this.#buf.subarray(r.next);
          const p = this.#pending.shift();
          if (!p) throw new Error('reply without a command');
          clearTimeout(p.timer);
          r.value instanceof Error ? p.reject(r.value) : p.resolve(r.value);
        }
      } catch (err) { this.close(err); }
    });
    socket.on('error', (err) => this.close(err));
    socket.on('close', () => this.close(new Error('redis connection closed')));
  }

  send(...args) {
    if (this.#dead) return Promise.reject(this.#dead);
    return new Promise((resolve, reject) => {
      // after a silent command the order of replies is unknown, so the whole connection goes
      const timer = setTimeout(() => this.close(new Error(`${args[0]} timed out`)), COMMAND_TIMEOUT_MS);
      this.#pending.push({ resolve, reject, timer });
      this.#socket.write(`*${args.length}\r\n` + args.map((a) => `$${Buffer.byteLength(String(a))}\r\n${a}\r\n`).join(''));
    });
  }

  close(err = new Error('closed')) {
    if (this.#dead) return;
    this.#dead = err;
    this.#socket.destroy();
    for (const p of this.#pending.splice(0)) { clearTimeout(p.timer); p.reject(err); }
  }
}

const { values: opt } = parseArgs({ options: { term: { type: 'string' }, revision: { type: 'string' } } });
if (!opt.term || !opt.revision) { console.error('need --term and --revision'); process.exit(2); }

const socket = net.connect({ host: process.env.REDIS_HOST ?? '127.0.0.1', port: Number(process.env.REDIS_PORT ?? 6379) });
await once(socket, 'connect');
const redis = new Resp(socket);
if (process.env.REDIS_PASSWORD) await redis.send('AUTH', process.env.REDIS_PASSWORD);

const key = `lock:timetable:${opt.term}`;
const token = randomBytes(16).toString('hex');
let sentAt = Date.now();
if ((await redis.send('SET', key, token, 'NX', 'PX', TTL_MS)) !== 'OK') {
  console.error(`term ${opt.term} is being rebuilt by somebody else`);
  process.exit(1);
}

const db = new pg.Client({ connectionString: process.env.DATABASE_URL, statement_timeout: 5_000, query_timeout: 6_000 });
try {
  await db.connect();
  for (const batch of planTerm(opt.term, { size: 200 })) {
    sentAt = Date.now();
    if ((await redis.send('EVAL', RENEW, 1, key, token, TTL_MS)) !== 1) throw new Error('lost the lock, stopping');
    if (Date.now() + BATCH_BUDGET_MS > sentAt + TTL_MS - SAFETY_MS) throw new Error('too little lease left, stopping');
    // one statement per batch; a row of a newer revision is never overwritten, repeating is harmless
    await db.query(
      `INSERT INTO timetable_entries (class_id, slot, room, teacher_id, revision)
       SELECT e.class_id, e.slot, e.room, e.teacher_id, $2::int
         FROM jsonb_to_recordset($1::jsonb) AS e(class_id text, slot int, room text, teacher_id text)
       ON CONFLICT (class_id, slot) DO UPDATE
         SET room = EXCLUDED.room, teacher_id = EXCLUDED.teacher_id, revision = EXCLUDED.revision
       WHERE timetable_entries.revision < EXCLUDED.revision`,
      [JSON.stringify(batch), opt.revision],
    );
    console.log(`wrote ${batch.length} entries`);
  }
} catch (err) {
  console.error(err.message);
  process.exitCode = 1;
} finally {
  await redis.send('EVAL', RELEASE, 1, key, token).catch(() => console.error('release failed, lock will expire'));
  redis.close();
  await db.end().catch(() => {});
}
