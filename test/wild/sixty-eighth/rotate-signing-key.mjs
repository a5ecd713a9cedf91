import net from 'node:net';
import { randomBytes, generateKeyPairSync } from 'node:crypto';

// Five independent nodes, no replication between them: "10.4.0.11:6379,10.4.1.11:6379,..."
const NODES = (process.env.LOCK_NODES ?? '').split(',').filter(Boolean).map((entry) => {
  const [host, port] = entry.split(':');
  return { host, port: Number(port) };
});
const QUORUM = Math.floor(NODES.length / 2) + 1;
const NODE_TIMEOUT_MS = 150;
const TTL_MS = 15_000;
const DRIFT_MS = Math.ceil(TTL_MS * 0.01) + 2;
const MIN_USEFUL_MS = 5_000;

const RELEASE = 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end';

function encode(args) {
  let out = `*${args.length}\r\n`;
  for (const arg of args) {
    const text = String(arg);
    out += `$${Buffer.byteLength(text)}\r\n${text}\r\n`;
  }
  return out;
}

/**
 * One command, one connection. Only for commands whose reply is a single line
 * (SET: "+OK" or "$-1", EVAL of RELEASE: ":0" or ":1", errors: "-...").
 */
function call(node, ...args) {
  return new Promise((resolve, reject) => {
    const socket = net.createConnection(node);
    let buffered = '';
    const timer = setTimeout(() => finish(new Error(`${node.host}: no reply in ${NODE_TIMEOUT_MS} ms`)), NODE_TIMEOUT_MS);

    function finish(err, line) {
      clearTimeout(timer);
      socket.destroy();
      if (err) reject(err);
      else resolve(line);
    }

    socket.setNoDelay(true);
    socket.on('connect', () => socket.write(encode(args)));
    socket.on('error', (err) => finish(err));
    socket.on('close', () => finish(new Error(`${node.host}: closed`)));
    socket.on('data', (chunk) => {
      buffered += chunk.toString('latin1');
      const end = buffered.indexOf('\r\n');
      if (end === -1) return;
      const line = buffered.slice(0, end);
      if (line.startsWith('-')) finish(new Error(`${node.host}: ${line.slice(1)}`));
      else finish(null, line);
    });
  });
}

async function releaseEverywhere(resource, token) {
  // also where SET seemed to fail: its reply may have been what got lost
  await Promise.allSettled(NODES.map((node) => call(node, 'EVAL', RELEASE, 1, resource, token)));
}

async function acquire(resource) {
  const token = randomBytes(20).toString('hex');
  const startedAt = performance.now();
  const votes = await Promise.allSettled(
    NODES.map((node) => call(node, 'SET', resource, token, 'NX', 'PX', TTL_MS)),
  );
  const granted = votes.filter((vote) => vote.status === 'fulfilled' && vote.value === '+OK').length;
  const validMs = TTL_MS - (performance.now() - startedAt) - DRIFT_MS;

  if (granted < QUORUM || validMs < MIN_USEFUL_MS) {
    await releaseEverywhere(resource, token);
    return null;
  }
  return { token, validMs };
}

/**
 * Rotates the key with which the gateway signs its tokens.
 *
 * @param {{ current(o: {signal: AbortSignal}): Promise<{version: number, createdAt: number}>,
 *           promote(o: {expectedVersion: number, publicPem: string, privatePem: string, signal: AbortSignal}): Promise<boolean> }} keystore
 * `promote` is a compare-and-set on the version (vault KV v2, `cas`), so a rotation which comes late is refused.
 */
export async function rotateSigningKey(keystore, { maxAgeMs, log = console } = {}) {
  if (NODES.length < 3) {
    throw new Error('LOCK_NODES must name at least three nodes');
  }
  const resource = 'gateway:signing-key:rotation';

  for (let attempt = 1; attempt <= 3; attempt += 1) {
    const lock = await acquire(resource);
    if (!lock) {
      await new Promise((r) => setTimeout(r, 200 + Math.random() * 400));
      continue;
    }

    const signal = AbortSignal.timeout(Math.floor(lock.validMs));
    try {
      const current = await keystore.current({ signal });
      if (Date.now() - current.createdAt < maxAgeMs) {
        return { rotated: false, reason: 'young', version: current.version };
      }
      const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
      signal.throwIfAborted();
      const stored = await keystore.promote({
        expectedVersion: current.version,
        publicPem: publicKey.export({ type: 'spki', format: 'pem' }),
        privatePem: privateKey.export({ type: 'pkcs8', format: 'pem' }),
        signal,
      });
      log.info('signing key rotation', { stored, from: current.version });
      return stored
        ? { rotated: true, version: current.version + 1 }
        : { rotated: false, reason: 'superseded' };
    } finally {
      await releaseEverywhere(resource, lock.token);
    }
  }
  return { rotated: false, reason: 'busy' };
}
