// Gate for deploy scripts. Runs on machines where nothing can be installed, so it talks to
// Redis itself.
import net from 'node:net';
import { randomUUID } from 'node:crypto';

const HOST = process.env.REDIS_HOST ?? '127.0.0.1';
const PORT = Number(process.env.REDIS_PORT ?? 6379);

const OPEN = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/** Sends one command on a connection of its own; resolves to the first line of the reply. */
function command(...args) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(PORT, HOST);
    let data = '';
    socket.setEncoding('utf8');
    socket.setTimeout(2000, () => socket.destroy(new Error('redis timed out')));
    socket.on('connect', () => {
      const parts = args.map((arg) => `$${Buffer.byteLength(String(arg))}\r\n${arg}\r\n`);
      socket.write(`*${args.length}\r\n${parts.join('')}`);
    });
    socket.on('data', (chunk) => {
      data += chunk;
      const end = data.indexOf('\r\n');
      if (end === -1) return;
      socket.end();
      const line = data.slice(0, end);
      if (line.startsWith('-')) reject(new Error(line.slice(1)));
      else resolve(line);
    });
    socket.on('error', reject);
    socket.on('close', () => reject(new Error('connection closed')));
  });
}

/** Closes the gate behind us. Resolves to a token, or to null if we have to stay outside. */
export async function enter(name, ttlMs) {
  const token = randomUUID();
  const reply = await command('SET', `gate:${name}`, token, 'NX', 'PX', ttlMs);
  return reply ? token : null;
}

export async function leave(name, token) {
  const reply = await command('EVAL', OPEN, 1, `gate:${name}`, token);
  return reply === ':1';
}

/** `deploy` must not take longer than `ttlMs`. */
export async function deployOnce(name, deploy, ttlMs = 300_000) {
  const token = await enter(name, ttlMs);
  if (token === null) {
    console.log(`${name} is being deployed by somebody else`);
    return false;
  }
  try {
    await deploy();
    return true;
  } finally {
    await leave(name, token);
  }
}
