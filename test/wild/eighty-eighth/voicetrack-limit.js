'use strict';
const Koa = require('koa');
const { execFile } = require('node:child_process');
const { randomUUID } = require('node:crypto');
const { promisify } = require('node:util');
const Redis = require('ioredis');

const exec = promisify(execFile);
const { REDIS_URL = 'redis://localhost:6379', PORT = '4000', TRACKS = '/srv/voicetracks' } = process.env;

const redis = new Redis(REDIS_URL, { maxRetriesPerRequest: 1 });
redis.on('error', (err) => console.error('redis', err.message));

const app = new Koa();

app.use(async (ctx, next) => {
  const presenter = ctx.get('x-presenter');
  ctx.assert(/^[a-z0-9-]{3,40}$/.test(presenter), 400, 'x-presenter missing');
  ctx.state.presenter = presenter;
  await next();
});

// one transcode per presenter at a time, the studio client polls on 429
app.use(oneAtATime({ prefix: 'radio:vt', ttlMs: 90_000, key: (ctx) => ctx.state.presenter }));

app.use(async (ctx) => {
  ctx.assert(ctx.method === 'POST', 405);
  const show = ctx.query.show;
  ctx.assert(typeof show === 'string' && /^\d{8}-[a-z]+$/.test(show), 400, 'bad show');
  const base = `${TRACKS}/${ctx.state.presenter}/${show}`;
  await exec('ffmpeg', ['-loglevel', 'error', '-y', '-i', `${base}.wav`, '-af', 'loudnorm=I=-23', `${base}.opus`], {
    timeout: Math.max(1, ctx.state.leftMs()),
    killSignal: 'SIGKILL',
  });
  ctx.body = { track: `${show}.opus` };
});

app.listen(Number(PORT));

function oneAtATime({ prefix, ttlMs, key, marginMs = 5_000 }) {
  return async (ctx, next) => {
    const slot = `${prefix}:${key(ctx)}`;
    const token = randomUUID();
    const deadline = performance.now() + ttlMs - marginMs;

    const [[setErr, created], [expErr]] = await redis.multi().setnx(slot, token).pexpire(slot, ttlMs).exec();
    if (setErr || expErr) throw setErr || expErr;
    if (created !== 1) {
      ctx.throw(429, 'a transcode of yours is still running', { headers: { 'Retry-After': '2' } });
    }

    ctx.state.leftMs = () => Math.floor(deadline - performance.now());
    try {
      await next();
    } finally {
      await redis.eval(RELEASE, 1, slot, token).catch((err) => console.warn(`${slot}: ${err.message}`));
    }
  };
}

const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;
