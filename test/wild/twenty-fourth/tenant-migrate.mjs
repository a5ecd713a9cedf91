import net from 'node:net';
import { randomBytes } from 'node:crypto';

// No client library in the migration image on purpose: it only has node.
class Resp {
  #sock; #buf = Buffer.alloc(0); #waiting = []; #dead = null;

  constructor(host, port) {
    this.#sock = net.createConnection({ host, port });
    this.#sock.setNoDelay(true);
    this.#sock.on('data', (d) => this.#onData(d));
    this.#sock.on('error', (e) => this.#fail(e));
    this.#sock.on('close', () => this.#fail(new Error('redis connection closed')));
  }

  #fail(err) {
    if (this.#dead) return;
    this.#dead = err;
    this.#sock.destroy();
    for (const w of this.#waiting.splice(0)) { clearTimeout(w.timer); w.reject(err); }
  }

  #onData(chunk) {
    this.#buf = Buffer.concat([this.#buf, chunk]);
    for (let r; !this.#dead && (r = this.#parse()); ) {
      this.#buf = this.#buf.subarray(r.used);
      const w = this.#waiting.shift();
      if (!w) return this.#fail(new Error('unexpected reply'));
      clearTimeout(w.timer);
      r.value instanceof Error ? w.reject(r.value) : w.resolve(r.value);
    }
  }

  #parse() {
    const b = this.#buf, eol = b.indexOf('\r\n');
    if (eol < 0) return null;
    const line = b.toString('utf8', 1, eol), used = eol + 2;
    switch (String.fromCharCode(b[0])) {
      case '+': return { value: line, used };
      case '-': return { value: new Error(line), used };
      case ':': return { value: Number(line), used };
      case '$': {
        const n = Number(line);
        if (n < 0) return { value: null, used };
        if (b.length < used + n + 2) return null;
        return { value: b.toString('utf8', used, used + n), used: used + n + 2 };
      }
      default: this.#fail(new Error('protocol error')); return null;
    }
  }

  send(...args) {
    if (this.#dead) return Promise.reject(this.#dead);
    return new Promise((resolve, reject) => {
      // An answer that is overdue could be taken for the next one's, so a timeout ends the connection.
      const timer = setTimeout(() => this.#fail(new Error(`redis timeout: ${args[0]}`)), 3000);
      this.#waiting.push({ resolve, reject, timer });
      this.#sock.write(`*${args.length}\r\n` + args.map((a) => `$${Buffer.byteLength(String(a))}\r\n${a}\r\n`).join(''));
    });
  }

  end() { this.#sock.end(); }
}

const TTL = 60_000;
const LOCK = `if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return redis.call('incr', KEYS[2]) end return 0`;
const EXTEND = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;
const UNLOCK = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

/**
 * db.transaction(fn) commits if fn resolves and rolls back if it throws; tx.query is pg's.
 * steps: [{ version, sql }] in ascending order.
 */
export async function migrateTenant(tenant, steps, db) {
  const redis = new Resp(process.env.REDIS_HOST ?? '127.0.0.1', Number(process.env.REDIS_PORT ?? 6379));
  try {
    if (process.env.REDIS_PASSWORD) await redis.send('AUTH', process.env.REDIS_PASSWORD);
    const key = `migrate:{${tenant}}:lock`, token = randomBytes(20).toString('hex');

    const fence = await redis.send('EVAL', LOCK, 2, key, `migrate:{${tenant}}:fence`, token, TTL);
    if (fence === 0) return { tenant, status: 'busy' };

    let applied = 0;
    try {
      for (const step of steps) {
        if ((await redis.send('EVAL', EXTEND, 1, key, token, TTL)) !== 1) throw new Error(`lost lock on ${tenant}`);
        await db.transaction(async (tx) => {
          // Takes the row lock, and turns away a runner that is older than the last one seen.
          const { rows } = await tx.query(
            'update tenant_schema set fence = $1 where tenant = $2 and fence <= $1 returning version', [fence, tenant]);
          if (rows.length === 0) throw new Error(`fenced off ${tenant} (${fence})`);
          if (rows[0].version >= step.version) return;
          await tx.query(step.sql);
          await tx.query('update tenant_schema set version = $1 where tenant = $2', [step.version, tenant]);
          applied++;
        });
      }
    } finally {
      await redis.send('EVAL', UNLOCK, 1, key, token).catch((e) => console.warn(`unlock ${tenant}: ${e.message}`));
    }
    return { tenant, status: 'done', applied };
  } finally {
    redis.end();
  }
}
