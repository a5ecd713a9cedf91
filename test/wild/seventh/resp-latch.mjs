import net from 'node:net';
import { once } from 'node:events';
import { randomUUID } from 'node:crypto';

/** Just enough RESP for one command at a time. */
class Resp {
  constructor(url = new URL(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379')) {
    this.socket = net.createConnection(Number(url.port || 6379), url.hostname);
    this.data = '';
    this.socket.setEncoding('latin1');
  }

  async cmd(...parts) {
    const wire = [`*${parts.length}`];
    for (const p of parts.map(String)) wire.push(`$${Buffer.byteLength(p)}`, p);
    this.socket.write(wire.join('\r\n') + '\r\n');
    for (;;) {
      const reply = this.parse();
      if (reply !== undefined) {
        if (reply instanceof Error) throw reply;
        return reply;
      }
      const [chunk] = await Promise.race([
        once(this.socket, 'data'),
        once(this.socket, 'close').then(() => Promise.reject(new Error('redis went away'))),
      ]);
      this.data += chunk;
    }
  }

  parse() {
    const nl = this.data.indexOf('\r\n');
    if (nl === -1) return undefined;
    const kind = this.data[0];
    const line = this.data.slice(1, nl);
    let end = nl + 2;
    let out;
    if (kind === '+') out = line;
    else if (kind === '-') out = new Error(line);
    else if (kind === ':') out = Number(line);
    else if (kind === '$' && line === '-1') out = null;
    else {
      const stop = end + Number(line);
      if (this.data.length < stop + 2) return undefined;
      out = this.data.slice(end, stop);
      end = stop + 2;
    }
    this.data = this.data.slice(end);
    return out;
  }

  close() {
    this.socket.destroy();
  }
}

const LATCH_SECONDS = 60;
const OPEN = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

/** Runs the backup unless another agent of this site does. */
export async function latchedBackup(site, snapshot, upload) {
  const redis = new Resp();
  const key = `backup:latch:${site}`;
  const token = randomUUID();
  try {
    const since = performance.now();
    const won = await redis.cmd('SETNX', key, token);
    if (won !== 1) return 'someone else';
    await redis.cmd('EXPIRE', key, LATCH_SECONDS);
    try {
      const file = await snapshot(site);
      if (performance.now() - since > (LATCH_SECONDS - 20) * 1000) return 'too slow';
      await upload(site, file, AbortSignal.timeout(15_000));
      return 'done';
    } finally {
      await redis.cmd('EVAL', OPEN, 1, key, token);
    }
  } finally {
    redis.close();
  }
}
