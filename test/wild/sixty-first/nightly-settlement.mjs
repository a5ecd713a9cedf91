import net from 'node:net';
import { randomUUID } from 'node:crypto';
import cron from 'node-cron';
import pg from 'pg';
import pino from 'pino';

const log = pino({ name: 'nightly-settlement' });
const pool = new pg.Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 5_000,
  statement_timeout: 15_000,
});

const REDIS = {
  host: process.env.REDIS_HOST ?? '127.0.0.1',
  port: Number(process.env.REDIS_PORT ?? 6379),
  password: process.env.REDIS_PASSWORD,
};
const LOCK_TTL_MS = 20 * 60_000;
const LOCK_MARGIN_MS = 30_000;

const RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

function encode(args) {
  return `*${args.length}\r\n${args.map((a) => `$${Buffer.byteLength(String(a))}\r\n${a}\r\n`).join('')}`;
}

function parseReply(buf, at) {
  const eol = buf.indexOf('\r\n', at);
  if (eol === -1) return null;
  const line = buf.toString('utf8', at + 1, eol);
  const next = eol + 2;
  switch (String.fromCharCode(buf[at])) {
    case '+': return { value: line, next };
    case '-': return { error: new Error(line), next };
    case ':': return { value: Number(line), next };
    case '$': {
      const length = Number(line);
      if (length === -1) return { value: null, next };
      if (buf.length < next + length + 2) return null;
      return { value: buf.toString('utf8', next, next + length), next: next + length + 2 };
    }
    default: return { error: new Error(`unexpected reply: ${line}`), next };
  }
}

// One short-lived connection per command; the job sends two commands a night.
function redisCall(...args) {
  return new Promise((resolve, reject) => {
    const commands = REDIS.password ? [['AUTH', REDIS.password], args] : [args];
    const socket = net.connect({ host: REDIS.host, port: REDIS.port });
    const timer = setTimeout(() => socket.destroy(new Error('redis timed out')), 4_000);
    let buf = Buffer.alloc(0);
    let at = 0;
    let seen = 0;
    socket.on('connect', () => socket.write(commands.map(encode).join('')));
    socket.on('data', (chunk) => {
      buf = Buffer.concat([buf, chunk]);
      for (let reply = parseReply(buf, at); reply; reply = parseReply(buf, at)) {
        at = reply.next;
        seen += 1;
        if (reply.error) return socket.destroy(reply.error);
        if (seen === commands.length) {
          resolve(reply.value);
          return socket.end();
        }
      }
    });
    socket.on('error', reject);
    socket.on('close', () => {
      clearTimeout(timer);
      reject(new Error('redis connection closed'));
    });
  });
}

async function settleDay(day, mayContinue) {
  const { rows } = await pool.query(
    'SELECT DISTINCT merchant_id FROM captures WHERE captured_on = $1 ORDER BY merchant_id', [day]);
  let settled = 0;
  for (const { merchant_id: merchantId } of rows) {
    if (!mayContinue()) throw new Error(`settlement of ${day} ran out of time after ${settled} merchants`);
    const res = await pool.query(
      `INSERT INTO settlements (merchant_id, day, amount_cents)
       SELECT $1, $2, SUM(amount_cents - fee_cents) FROM captures WHERE merchant_id = $1 AND captured_on = $2
       ON CONFLICT (merchant_id, day) DO NOTHING`,
      [merchantId, day],
    );
    settled += res.rowCount;
  }
  return settled;
}

export async function runSettlement(day) {
  const key = `cron:settlement:${day}`;
  const token = randomUUID();
  const deadline = performance.now() + LOCK_TTL_MS - LOCK_MARGIN_MS;

  const reply = await redisCall('SET', key, token, 'NX', 'PX', LOCK_TTL_MS);
  if (reply !== 'OK') {
    log.info({ day }, 'another host is settling');
    return null;
  }
  try {
    const settled = await settleDay(day, () => performance.now() < deadline);
    log.info({ day, settled }, 'settlement finished');
    return settled;
  } finally {
    await redisCall('EVAL', RELEASE, 1, key, token).catch((err) => log.warn({ err, key }, 'unlock failed'));
  }
}

cron.schedule('15 2 * * *', async () => {
  const day = new Date(Date.now() - 86_400_000).toISOString().slice(0, 10);
  try {
    await runSettlement(day);
  } catch (err) {
    log.error({ err, day }, 'settlement failed');
  }
});
