#!/usr/bin/env node
import net from 'node:net';
import { once } from 'node:events';
import { randomUUID } from 'node:crypto';
import { parseArgs } from 'node:util';
import pg from 'pg';

const { values } = parseArgs({
  options: {
    tenant: { type: 'string' },
    redis: { type: 'string', default: '127.0.0.1:6379' },
    'older-than': { type: 'string', default: '90' },
  },
});
if (!values.tenant) {
  console.error('usage: vacuum-tenant --tenant <id> [--older-than days]');
  process.exit(64);
}

const [host, port] = values.redis.split(':');
const socket = net.connect(Number(port), host);
socket.setEncoding('utf8');
await once(socket, 'connect');

async function command(...args) {
  const frame = args.map((a) => `$${Buffer.byteLength(String(a))}\r\n${a}\r\n`).join('');
  socket.write(`*${args.length}\r\n${frame}`);
  let reply = '';
  while (!reply.endsWith('\r\n')) {
    const [chunk] = await once(socket, 'data');
    reply += chunk;
  }
  if (reply.startsWith('-')) throw new Error(reply.slice(1).trim());
  return reply.trim();
}

const key = `vacuum:${values.tenant}`;
const token = randomUUID();
const release =
  "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

try {
  await command('SET', key, token, 'NX', 'EX', 600);
} catch (err) {
  console.error(`tenant ${values.tenant} is locked: ${err.message}`);
  process.exit(75);
}

const db = new pg.Client({ statement_timeout: 120_000, query_timeout: 130_000 });
try {
  await db.connect();
  await db.query('BEGIN');
  const moved = await db.query(
    `INSERT INTO events_archive SELECT * FROM events
      WHERE tenant_id = $1 AND created_at < now() - make_interval(days => $2)`,
    [values.tenant, Number(values['older-than'])],
  );
  await db.query(
    `DELETE FROM events WHERE tenant_id = $1 AND created_at < now() - make_interval(days => $2)`,
    [values.tenant, Number(values['older-than'])],
  );
  await db.query('COMMIT');
  console.log(`archived ${moved.rowCount} events of ${values.tenant}`);
} catch (err) {
  console.error(err.message);
  process.exitCode = 1;
} finally {
  await db.end().catch(() => {});
  await command('EVAL', release, 1, key, token).catch(() => {});
  socket.end();
}
