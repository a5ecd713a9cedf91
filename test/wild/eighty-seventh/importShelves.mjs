#!/usr/bin/env node
// node importShelves.mjs scans.csv   -> film archive shelf scans into pg
// (no redis package on the scanner box, so plain sockets)
import net from 'node:net';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { randomUUID } from 'node:crypto';
import pg from 'pg';

const KEY = 'archive:shelf-import';
const TTL = 40000;
const BATCH = 500;
const EXT = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) end return 0";
const DEL = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0";

class Resp {
  constructor(sock) {
    this.s = sock;
    this.q = [];
    this.buf = Buffer.alloc(0);
    sock.on('data', (d) => { this.buf = Buffer.concat([this.buf, d]); this.drain(); });
    sock.on('error', (e) => this.die(e));
    sock.on('close', () => this.die(new Error('redis closed')));
  }
  die(e) {
    this.dead ??= e;
    for (const p of this.q.splice(0)) { clearTimeout(p.t); p.no(e); }
    this.s.destroy();
  }
  drain() {
    for (;;) {
      const eol = this.buf.indexOf('\r\n');
      if (eol < 0) return;
      const kind = String.fromCharCode(this.buf[0]);
      const line = this.buf.toString('utf8', 1, eol);
      let val = line;
      let end = eol + 2;
      if (kind === ':') val = Number(line);
      else if (kind === '-') val = new Error(line);
      else if (kind === '$') {
        const n = Number(line);
        if (n < 0) val = null;
        else {
          if (this.buf.length < end + n + 2) return;
          val = this.buf.toString('utf8', end, end + n);
          end += n + 2;
        }
      } else if (kind !== '+') return this.die(new Error('odd reply ' + kind));
      this.buf = this.buf.subarray(end);
      const p = this.q.shift();
      if (!p) return this.die(new Error('reply without request'));
      clearTimeout(p.t);
      val instanceof Error ? p.no(val) : p.ok(val);
    }
  }
  cmd(...args) {
    if (this.dead) return Promise.reject(this.dead);
    return new Promise((ok, no) => {
      const t = setTimeout(() => this.die(new Error('redis timeout')), 4000);
      this.q.push({ ok, no, t });
      this.s.write(`*${args.length}\r\n` + args.map((a) => `$${Buffer.byteLength(String(a))}\r\n${a}\r\n`).join(''));
    });
  }
}

const rows = (await readFile(process.argv[2], 'utf8'))
  .split(/\r?\n/).filter(Boolean)
  .map((l) => l.split(';'))
  .map(([can, shelf, at]) => ({ can, shelf, at: new Date(at) }));

const sock = net.connect(Number(process.env.REDIS_PORT || 6379), process.env.REDIS_HOST || '127.0.0.1');
await once(sock, 'connect', { signal: AbortSignal.timeout(5000) });
const redis = new Resp(sock);
if (process.env.REDIS_PASS) await redis.cmd('AUTH', process.env.REDIS_PASS);

const tok = randomUUID();
if ((await redis.cmd('SET', KEY, tok, 'NX', 'PX', TTL)) !== 'OK') {
  console.error('another import is running');
  process.exit(2);
}

const db = new pg.Client({ connectionString: process.env.DATABASE_URL, connectionTimeoutMillis: 5000, statement_timeout: 10000, query_timeout: 15000 });
try {
  await db.connect();
  for (let i = 0; i < rows.length; i += BATCH) {
    if ((await redis.cmd('EVAL', EXT, 1, KEY, tok, TTL)) !== 1) throw new Error('lock is gone, stopped at row ' + i);
    const last = new Map(); // newest scan per can
    for (const r of rows.slice(i, i + BATCH)) if (!last.has(r.can) || last.get(r.can).at <= r.at) last.set(r.can, r);
    const v = [...last.values()];
    await db.query(
      `INSERT INTO shelf (can_no, shelf_no, scanned_at)
       SELECT * FROM unnest($1::text[], $2::text[], $3::timestamptz[])
       ON CONFLICT (can_no) DO UPDATE SET shelf_no = excluded.shelf_no, scanned_at = excluded.scanned_at
       WHERE excluded.scanned_at > shelf.scanned_at`,
      [v.map((r) => r.can), v.map((r) => r.shelf), v.map((r) => r.at)],
    );
    console.log('rows', i, '-', i + v.length);
  }
} catch (e) {
  console.error('import failed:', e.message);
  process.exitCode = 1;
} finally {
  await redis.cmd('EVAL', DEL, 1, KEY, tok).catch((e) => console.error('unlock:', e.message));
  await db.end().catch(() => {});
  sock.destroy();
}
