#!/usr/bin/env node
// usage: media-manifest-gc /mnt/media
// Drops manifest entries whose file is gone. The uploader appends to manifest.json under the same lock.
import { randomUUID } from 'node:crypto';
import { readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import net from 'node:net';
import path from 'node:path';

type Reply = string | number | null;

class Resp {
  private buf = Buffer.alloc(0);
  private queue: { ok: (r: Reply) => void; no: (e: Error) => void }[] = [];
  private broken: Error | null = null;

  private constructor(private sock: net.Socket) {
    sock.on('data', (d) => this.feed(d));
    sock.on('error', (e) => this.fail(e));
    sock.on('close', () => this.fail(new Error('connection closed')));
  }

  static open(host: string, port: number): Promise<Resp> {
    return new Promise((ok, no) => {
      const sock = net.connect({ host, port }, () => (sock.off('error', no), ok(new Resp(sock))));
      sock.once('error', no);
    });
  }

  call(...args: (string | number)[]): Promise<Reply> {
    if (this.broken) return Promise.reject(this.broken);
    return new Promise((ok, no) => {
      // After a missed answer the stream cannot be trusted any more, so the whole connection goes.
      const timer = setTimeout(() => this.fail(new Error(`${args[0]}: no answer in 3 s`)), 3_000);
      this.queue.push({
        ok: (r) => (clearTimeout(timer), ok(r)),
        no: (e) => (clearTimeout(timer), no(e)),
      });
      const parts = args.map(String).map((a) => `$${Buffer.byteLength(a)}\r\n${a}\r\n`);
      this.sock.write(`*${args.length}\r\n${parts.join('')}`);
    });
  }

  end() {
    this.sock.end();
  }

  private fail(e: Error) {
    this.broken ??= e;
    this.sock.destroy();
    for (const w of this.queue.splice(0)) w.no(this.broken);
  }

  private feed(d: Buffer) {
    this.buf = Buffer.concat([this.buf, d]);
    for (;;) {
      const eol = this.buf.indexOf('\r\n');
      if (eol < 0) return;
      const kind = String.fromCharCode(this.buf[0]);
      const head = this.buf.toString('utf8', 1, eol);
      let next = eol + 2;
      let value: Reply | Error;
      if (kind === '+') value = head;
      else if (kind === ':') value = Number(head);
      else if (kind === '-') value = new Error(head);
      else if (kind === '$' && head === '-1') value = null;
      else if (kind === '$') {
        const len = Number(head);
        if (this.buf.length < next + len + 2) return;
        value = this.buf.toString('utf8', next, next + len);
        next += len + 2;
      } else return this.fail(new Error(`unexpected reply ${kind}${head}`));
      this.buf = this.buf.subarray(next);
      const w = this.queue.shift();
      if (value instanceof Error) w?.no(value);
      else w?.ok(value);
    }
  }
}

const root = process.argv[2] ?? '.';
const LOCK = 'media:manifest:lock';
const TTL = 10 * 60_000;
const BUDGET = 5 * 60_000; // we give up at half of the lock's life
const DEL_MINE = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0";

const redis = await Resp.open(process.env.REDIS_HOST ?? '127.0.0.1', Number(process.env.REDIS_PORT ?? 6379));
const token = randomUUID();
const stopAt = performance.now() + BUDGET;
if ((await redis.call('SET', LOCK, token, 'NX', 'PX', TTL)) !== 'OK') {
  console.error('manifest is busy, try later');
  process.exit(75);
}

const manifest = path.join(root, 'manifest.json');
const draft = path.join(root, `.manifest.${token}`);
try {
  const entries: { file: string }[] = JSON.parse(await readFile(manifest, 'utf8'));
  const kept: typeof entries = [];
  for (const e of entries) {
    if (performance.now() > stopAt) throw new Error('out of time, nothing was changed');
    const there = await stat(path.join(root, e.file)).then(() => true, (err) => {
      if (err.code === 'ENOENT') return false;
      throw err;
    });
    if (there) kept.push(e);
  }
  await writeFile(draft, JSON.stringify(kept, null, 1));
  const owner = await redis.call('GET', LOCK);
  if (owner !== token || performance.now() > stopAt) throw new Error('lock lost or too old, nothing was changed');
  await rename(draft, manifest);
  console.log(`dropped ${entries.length - kept.length} of ${entries.length}`);
} finally {
  await rm(draft, { force: true });
  await redis.call('EVAL', DEL_MINE, 1, LOCK, token).catch((e) => console.error('lock left to expire:', e.message));
  redis.end();
}
