#!/usr/bin/env node
// usage: with-deploy-lock.mjs <environment> -- <command> [args...]
//
// Runs a command while holding the deploy lock of an environment. No dependencies on purpose:
// the runner image has node and nothing else. Exits 75 (EX_TEMPFAIL) if somebody else deploys.
// This is pid 1 of the job container: when it is killed the kernel takes the command with it.
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import net from 'node:net';

const TTL = 60_000;
const BEAT = 10_000;
const TERM_AFTER = 35_000; // without a confirmed renewal
const KILL_AFTER = 48_000;

const [env, dashes, cmd, ...args] = process.argv.slice(2);
if (!env || dashes !== '--' || !cmd) {
  console.error('usage: with-deploy-lock.mjs <environment> -- <command> [args...]');
  process.exit(64);
}
const key = `deploy:${env}`;
const token = `${process.env.CI_JOB_URL ?? 'manual'} ${randomUUID()}`;

const RENEW = `if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('PEXPIRE',KEYS[1],ARGV[2]) end return 0`;
const RELEASE = `if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) end return 0`;

/** One connection per command list; we send one every ten seconds, nothing to pool. */
function redis(...parts) {
  const url = new URL(process.env.DEPLOY_REDIS_URL ?? 'redis://127.0.0.1:6379');
  const cmds = [];
  if (url.password) {
    cmds.push(['AUTH', ...(url.username ? [decodeURIComponent(url.username)] : []), decodeURIComponent(url.password)]);
  }
  cmds.push(parts);
  const wire = cmds
    .map((c) => `*${c.length}\r\n` + c.map((p) => `$${Buffer.byteLength(String(p))}\r\n${p}\r\n`).join(''))
    .join('');

  return new Promise((resolve, reject) => {
    const sock = net.connect({ host: url.hostname, port: Number(url.port || 6379) });
    let buf = '';
    const replies = [];
    const timer = setTimeout(() => done(new Error('redis timeout')), 5_000);
    const done = (err, value) => {
      clearTimeout(timer);
      sock.destroy();
      err ? reject(err) : resolve(value);
    };
    sock.setEncoding('utf8');
    sock.on('connect', () => sock.write(wire));
    sock.on('error', done);
    sock.on('close', () => done(new Error('redis closed the connection')));
    sock.on('data', (chunk) => {
      buf += chunk;
      for (let eol; (eol = buf.indexOf('\r\n')) >= 0; ) {
        const line = buf.slice(0, eol);
        const rest = line.slice(1);
        // only simple, error, integer and null replies are ever asked for here
        buf = buf.slice(eol + 2);
        if (line[0] === '-') return done(new Error(rest));
        replies.push(line[0] === ':' ? Number(rest) : line === '$-1' ? null : rest);
      }
      if (replies.length === cmds.length) done(null, replies[replies.length - 1]);
    });
  });
}

const release = () =>
  redis('EVAL', RELEASE, 1, key, token).catch((err) =>
    console.error(`deploy lock: release failed (${err.message}), expires within ${TTL / 1000}s`));

let confirmed = performance.now();
let got;
try {
  got = await redis('SET', key, token, 'NX', 'PX', TTL);
} catch (err) {
  console.error(`deploy lock: ${err.message}`);
  await release(); // the SET may have arrived although its answer did not
  process.exit(69);
}
if (got !== 'OK') {
  console.error(`deploy lock: ${env} is being deployed by another job`);
  process.exit(75);
}

const child = spawn(cmd, args, { stdio: 'inherit', detached: true });
let lost = false;
let signalled = false;
const kill = (sig) => {
  try { if (child.pid) process.kill(-child.pid, sig); } catch { /* already gone */ }
};

const beat = setInterval(async () => {
  const asked = performance.now();
  try {
    if ((await redis('EVAL', RENEW, 1, key, token, TTL)) === 1) confirmed = asked;
    else lost = true;
  } catch (err) {
    console.error(`deploy lock: renewal failed: ${err.message}`);
  }
}, BEAT);

const watchdog = setInterval(() => {
  const age = performance.now() - confirmed;
  if (lost || age > KILL_AFTER) kill('SIGKILL');
  else if (age > TERM_AFTER && !signalled) {
    signalled = true;
    console.error('deploy lock: cannot renew, stopping the deployment');
    kill('SIGTERM');
  }
}, 500);

for (const sig of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(sig, () => kill(sig));

const code = await new Promise((resolve) => {
  child.on('error', (err) => { console.error(err.message); resolve(127); });
  child.on('close', (c, sig) => resolve(sig ? 1 : c));
});
clearInterval(beat);
clearInterval(watchdog);
await release();
process.exit(lost ? 70 : code);
