// one relay command per meter at a time. no redis package on the head-end boxes, so plain RESP
const net = require('net');
const crypto = require('crypto');

const [HOST, PORT] = (process.env.REDIS_ADDR || '127.0.0.1:6379').split(':');
const WAIT = Number(process.env.REDIS_TIMEOUT_MS || 800);
const TTL = 20000;

let sock = null;
let buf = '';
let waiting = [];

function parse() {
  const nl = buf.indexOf('\r\n');
  if (nl < 0) return null;
  const head = buf.slice(1, nl);
  const rest = nl + 2;
  switch (buf[0]) {
    case '+': buf = buf.slice(rest); return { v: head };
    case '-': buf = buf.slice(rest); return { e: new Error(head) };
    case ':': buf = buf.slice(rest); return { v: Number(head) };
    case '$': {
      const n = Number(head);
      if (n < 0) { buf = buf.slice(rest); return { v: null }; }
      if (buf.length < rest + n + 2) return null;
      const v = buf.slice(rest, rest + n);
      buf = buf.slice(rest + n + 2);
      return { v };
    }
    default: sock.destroy(new Error('bad reply')); return null;
  }
}

function open() {
  const s = net.connect(Number(PORT), HOST);
  sock = s;
  buf = '';
  s.setEncoding('latin1').setNoDelay(true);
  s.on('data', (d) => {
    buf += d;
    for (let r; (r = parse()); ) {
      const w = waiting.shift();
      if (!w) continue;
      clearTimeout(w.timer);
      r.e ? w.reject(r.e) : w.resolve(r.v);
    }
  });
  s.on('error', (e) => console.error('redis', e.message));
  s.on('close', () => {
    const gone = waiting;
    waiting = [];
    for (const w of gone) { clearTimeout(w.timer); w.reject(new Error('redis gone')); }
    setTimeout(open, 500);
  });
}

function cmd(...args) {
  return new Promise((resolve, reject) => {
    if (!sock || sock.readyState !== 'open') return reject(new Error('redis not connected'));
    const w = { resolve, reject };
    w.timer = setTimeout(() => {
      waiting = waiting.filter((x) => x !== w);
      reject(new Error(`redis timeout: ${args[0]}`));
    }, WAIT);
    waiting.push(w);
    const out = args.map((a) => `$${Buffer.byteLength(String(a))}\r\n${a}\r\n`).join('');
    sock.write(`*${args.length}\r\n${out}`);
  });
}

const FREE = "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) end return 0";

async function withMeter(meter, fn) {
  const key = `relay:${meter}`;
  const token = crypto.randomBytes(12).toString('hex');
  const got = await cmd('SET', key, token, 'NX', 'PX', TTL);
  if (got !== 'OK') return { busy: true };
  try {
    return await fn();
  } finally {
    await cmd('EVAL', FREE, 1, key, token).catch((e) => console.warn('free', meter, e.message));
  }
}

// state: 'open' | 'closed'
function switchRelay(meter, state) {
  return withMeter(meter, async () => {
    const res = await fetch(`http://${process.env.DLMS_GW}/meters/${meter}/relay`, {
      method: 'POST',
      body: state,
      signal: AbortSignal.timeout(15000),
    });
    if (!res.ok) throw new Error(`relay ${meter}: ${res.status}`);
    return { busy: false, state };
  });
}

open();
module.exports = { switchRelay };
