import { describe, expect, it } from 'vitest';
import { idsOfModule as idsOf, idsOf as idsOfTyped } from './testing/audited.js';

const HEAD = `import { randomUUID } from 'node:crypto';
import { AsyncLocalStorage } from 'node:async_hooks';
import { Redis } from 'ioredis';
const redis = new Redis();
const SAME = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end ";
const unlock = (key, token) => redis.eval(SAME + "return redis.call('del', KEYS[1])", 1, key, token);
const extend = (key, token, ms) => redis.eval(SAME + "return redis.call('pexpire', KEYS[1], ARGV[2])", 1, key, token, ms);
`;

describe('work that it is handed', () => {
  const limited = (limit: string): string => `${HEAD}
export async function exclusive(name, work, { ttlMs = 30_000, maxRunMs = 20_000 } = {}) {
  const [key, token, over] = ['lock:' + name, randomUUID(), new AbortController()];
  if ((await redis.set(key, token, 'PX', ttlMs, 'NX')) !== 'OK') throw new Error('busy');
  let timer;
  try {
    ${limit}
  } finally {
    clearTimeout(timer);
    await unlock(key, token);
  }
}`;
  const limit = (told: string): string =>
    `const limit = new Promise((_, fail) => { timer = setTimeout(() => { ${told} fail(new Error('too slow')); }, maxRunMs); });`;

  it.each([
    ['return await work();', []],
    [`${limit('')} return await Promise.race([work(), limit]);`, ['releases-early']],
    [`${limit('over.abort();')} return await Promise.race([work(over.signal), limit]);`, []],
  ])('is over before the lock is released, or told that its time is over: %s', async (runs, ids) => {
    await expect(idsOf(limited(runs))).resolves.toEqual(ids);
  });
});

describe('work of its own', () => {
  const exporting = (done: string): string => `${HEAD}
async function write(archive, account) {
  const sequence = await archive.next(account);
  for (const page of await archive.pages(account)) await archive.append(sequence, page);
  await archive.seal(sequence);
}
export async function exportStatement(archive, account) {
  const [key, token] = ['statement:' + account, randomUUID()];
  if ((await redis.set(key, token, 'PX', 30000, 'NX')) !== 'OK') throw new Error('busy');
  try {
    ${done}
  } finally {
    await unlock(key, token);
  }
}`;

  it('is over before the lock is released', async () => {
    await expect(idsOf(exporting('return write(archive, account);'))).resolves.toEqual(['releases-early']);
    await expect(idsOf(exporting('return await write(archive, account);'))).resolves.toEqual([]);
  });

  it('is not begun in forEach', async () => {
    const paying = (done: string): string => `${HEAD}
export async function settle(bank, store, merchant) {
  const [key, token] = ['settle:' + merchant, randomUUID()];
  if ((await redis.set(key, token, 'PX', 30000, 'NX')) !== 'OK') throw new Error('busy');
  try {
    const pay = async (charge) => { if (charge.settled) return; await bank.transfer(charge); await store.mark(charge); };
    const charges = (await store.openCharges(merchant)).slice(0, 5);
    ${done}
  } finally {
    await unlock(key, token);
  }
}`;
    await expect(idsOf(paying('charges.forEach(async (it) => pay(it));'))).resolves.toEqual(['releases-early']);
    await expect(idsOf(paying('for (const it of charges) await pay(it);'))).resolves.toEqual([]);
  });

  it('may have begun what nobody waits for', async () => {
    await expect(idsOf(exporting('archive.note(account); await write(archive, account);'))).resolves.toEqual([]);
  });
});

describe('an acquisition that has given up', () => {
  const waiting = (stop: string, late: string): string => `${HEAD}
export class Lease {
  constructor(key, token, ttlMs) {
    this.key = key; this.token = token; this.until = performance.now() + ttlMs - 200;
    this.timer = setInterval(async () => {
      const sent = performance.now();
      if ((await extend(key, token, ttlMs).catch(() => 0)) === 1 && sent < this.until) this.until = sent + ttlMs - 200;
    }, ttlMs / 3);
  }
  isHeld() { return performance.now() < this.until; }
  async release() { clearInterval(this.timer); this.until = 0; await unlock(this.key, this.token); }
}
export async function acquire(key, ttlMs = 9000, waitMs = 3000) {
  let isOver = false;
  const spin = async () => {
    while (!isOver) {
      const token = randomUUID();
      if ((await redis.set(key, token, 'PX', ttlMs, 'NX')) === 'OK') { ${late} return new Lease(key, token, ttlMs); }
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  };
  let timer;
  const late = new Promise((_, reject) => { timer = setTimeout(() => { ${stop} reject(new Error('too late')); }, waitMs); });
  try { return await Promise.race([spin(), late]); } finally { clearTimeout(timer); }
}`;

  it('does not keep what it gets later', async () => {
    await expect(idsOf(waiting('', ''))).resolves.toEqual(['keeps-late-grant']);
    const stops = waiting('isOver = true;', 'if (isOver) { await unlock(key, token); return null; }');
    await expect(idsOf(stops)).resolves.toEqual([]);
  });
});

describe('a nested call', () => {
  const nested = (ends: string, retags = 'retag(name, crm).catch(() => {});'): string => `${HEAD}
const held = new AsyncLocalStorage();
export async function withLock(name, work, ttlMs = 9000) {
  const outer = held.getStore();
  if (outer?.name === name && !outer.isOver) return work();
  const [key, token, own] = ['lock:' + name, randomUUID(), { name, isOver: false }];
  if ((await redis.set(key, token, 'PX', ttlMs, 'NX')) !== 'OK') throw new Error('busy');
  try {
    return await held.run(own, work);
  } finally {
    ${ends}
    await unlock(key, token);
  }
}
export const merge = (name, crm) => withLock(name, async () => {
  await crm.save(name);
  ${retags}
});`;

  it('is none when its outer lock has been released', async () => {
    await expect(idsOf(nested(''))).resolves.toEqual(['reenters-without-lock']);
    await expect(idsOf(nested('own.isOver = true;'))).resolves.toEqual([]);
    await expect(idsOf(nested('', 'await retag(name, crm);'))).resolves.toEqual([]);
  });
});

describe('a visitor who does not wait for the lock', () => {
  const page = (keepsSeconds: number): string => `${HEAD}
export function pages(build, pauses = 60) {
  return async function page(sku) {
    const [cached, lock, token] = ['page:' + sku, 'page:' + sku + ':lock', randomUUID()];
    for (let i = 0; ; i++) {
      const hit = await redis.get(cached);
      if (hit) return hit;
      if ((await redis.set(lock, token, 'PX', 10000, 'NX')) === 'OK') break;
      if (i >= pauses) return build(sku);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    try {
      const made = (await redis.get(cached)) ?? String(await build(sku));
      await redis.set(cached, made, 'EX', ${keepsSeconds});
      return made;
    } finally {
      await unlock(lock, token);
    }
  };
}`;

  it('may build what is only cached', async () => {
    await expect(idsOf(page(300), 12)).resolves.toEqual([]);
    await expect(idsOf(page(86_400), 12)).resolves.toEqual([]);
    await expect(idsOf(page(86_400).replaceAll('build', 'order'), 12)).resolves.toContain('fails-open');
  });
});

describe('the lock of a request', () => {
  const middleware = (on: string): string => `${HEAD}
export function oneAtATime(ttlMs = 8000) {
  return async function (req, res, next) {
    const [key, token] = ['user:' + req.user.id, randomUUID()];
    let until = performance.now() + ttlMs - 200;
    if ((await redis.set(key, token, 'PX', ttlMs, 'NX')) !== 'OK') return res.status(429).end();
    req.lease = { check() { if (performance.now() >= until) throw new Error('lost'); } };
    res.once('close', () => { ${on} unlock(key, token).catch(() => {}); });
    next();
  };
}`;

  it('is over for its work when the client has hung up', async () => {
    await expect(idsOf(middleware(''))).resolves.toEqual(['releases-early']);
    await expect(idsOf(middleware('until = 0;'))).resolves.toEqual([]);
  });
});

describe('a release that watches', () => {
  const watching = (connection: string, close: string): string => `${HEAD}
export async function acquire(key, ttlMs) {
  const token = randomUUID();
  return (await redis.set(key, token, 'PX', ttlMs, 'NX')) === 'OK' ? { key, token } : null;
}
export async function release({ key, token }) {
  const own = ${connection};
  await own.watch(key);
  if ((await own.get(key)) === token) await own.multi().del(key).exec();
  else await own.unwatch();
  ${close}
}`;

  it('has its connection for itself', async () => {
    await expect(idsOf(watching('redis', ''))).resolves.toEqual(['deletes-others']);
    await expect(idsOf(watching('redis.duplicate()', 'own.disconnect();'))).resolves.toEqual([]);
  });
});

describe('a mark of what is done', () => {
  const handling = (again: string): string => `${HEAD}
export async function handleOnce(event, apply) {
  const [lock, done, token] = ['inbox:' + event + ':lock', 'inbox:' + event + ':done', randomUUID()];
  if (await redis.exists(done)) return;
  if ((await redis.set(lock, token, 'PX', 20000, 'NX')) !== 'OK') return;
  try {
    ${again}
    await apply();
    await redis.set(done, '1', 'EX', 86400);
  } finally {
    await unlock(lock, token);
  }
}`;

  it('is looked for when the lock is held', async () => {
    await expect(idsOf(handling(''))).resolves.toEqual(['looks-before-lock']);
    await expect(idsOf(handling('if (await redis.exists(done)) return;'))).resolves.toEqual([]);
  });
});

describe('a repeat that waits for the lock', () => {
  const LOCKED = `
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
async function locked(lock, work) {
  const token = randomUUID();
  for (let i = 0; (await redis.set(lock, token, 'PX', 20000, 'NX')) !== 'OK'; i++) {
    if (i > 300) throw new Error('busy');
    await sleep(100);
  }
  try { return await work(); } finally { await unlock(lock, token); }
}`;
  const handling = (before: string, again: string): string => `${HEAD}${LOCKED}
export async function payOnce(invoice, pay) {
  const [lock, answer] = ['pay:' + invoice + ':lock', 'pay:' + invoice + ':answer'];
  ${before}
  return locked(lock, async () => {
    ${again}
    const paid = String(await pay());
    await redis.set(answer, paid, 'EX', 86400);
    return paid;
  });
}`;
  const LOOKS = 'const known = await redis.get(answer); if (known) return known;';

  it('looks for the answer when it holds the lock', async () => {
    await expect(idsOf(handling(LOOKS, ''))).resolves.toEqual(['looks-before-lock']);
    await expect(idsOf(handling(LOOKS, LOOKS))).resolves.toEqual([]);
    await expect(idsOf(handling('', ''))).resolves.toEqual([]);
  });

  it('may store what a script compares', async () => {
    const script =
      "if redis.call('exists', KEYS[1]) == 1 then return 0 end redis.call('set', KEYS[1], ARGV[1], 'EX', 86400) return 1";
    const storing = handling(LOOKS, '').replace(
      /redis\.set\(answer[^)]*\)/,
      `redis.eval("${script}", 1, answer, paid)`,
    );
    await expect(idsOf(storing)).resolves.toEqual([]);
    const blind = storing.replace(/if redis\.call\('exists[^\n]*? end (?=redis)/, '');
    await expect(idsOf(blind)).resolves.toContain('looks-before-lock');
  });

  it('may load again what a cache keeps', async () => {
    const loading = handling(LOOKS, '').replace(/\bpay\b(?=\)|\()/g, 'load');
    await expect(idsOf(loading)).resolves.toEqual([]);
    await expect(idsOf(handling(LOOKS, '').replace('86400', '60'))).resolves.toEqual([]);
  });

  const charging = (again: string, given = ''): string => `${HEAD}${LOCKED}
export class Invoices {
  constructor(bank) { this.bank = bank; }
  async charge(invoice) {
    const [lock, answer] = ['pay:' + invoice + ':lock', 'pay:' + invoice + ':answer'];
    ${LOOKS}
    return locked(lock, async () => {
      ${again}
      const paid = String(await this.bank.transfer(invoice${given}));
      await redis.set(answer, paid, 'EX', 86400);
      return paid;
    });
  }
}`;

  it('does its own work once, or what it works with does', async () => {
    await expect(idsOf(charging(''))).resolves.toEqual(['looks-before-lock']);
    await expect(idsOf(charging(LOOKS))).resolves.toEqual([]);
    await expect(idsOf(charging('', ', { idempotencyKey: invoice }'))).resolves.toEqual([]);
  });
});

describe('an extension of a place in a sorted set', () => {
  const slots = (keep: string): string => `${HEAD}
const NOW = "local t = redis.call('time') local now = t[1] * 1000 + math.floor(t[2] / 1000) ";
const ENTER = NOW + "redis.call('zremrangebyscore', KEYS[1], '-inf', now) if redis.call('zcard', KEYS[1]) >= 1 then return 0 end redis.call('zadd', KEYS[1], now + ARGV[2], ARGV[1]) redis.call('pexpire', KEYS[1], ARGV[2]) return 1";
const KEEP = NOW + "${keep}";
export class Slot {
  constructor(key, id, until) {
    this.key = key; this.id = id; this.until = until; this.isOver = false;
    this.timer = setInterval(async () => {
      const sent = performance.now();
      const kept = await redis.eval(KEEP, 1, key, id, 9000).catch(() => null);
      if (kept === 0) this.until = sent + 8700;
      else if (kept !== null) { this.isOver = true; clearInterval(this.timer); }
    }, 3000);
  }
  get active() { return !this.isOver && performance.now() < this.until; }
  async release() { this.isOver = true; clearInterval(this.timer); await redis.zrem(this.key, this.id); }
}
export async function acquireSlot(name) {
  const [key, id, sent] = ['slots:' + name, randomUUID(), performance.now()];
  return (await redis.eval(ENTER, 1, key, id, 9000)) === 1 ? new Slot(key, id, sent + 8700) : null;
}`;

  it('is judged by whether the place is still there', async () => {
    const blind =
      "redis.call('pexpire', KEYS[1], ARGV[2]) return redis.call('zadd', KEYS[1], 'XX', now + ARGV[2], ARGV[1])";
    await expect(idsOf(slots(blind))).resolves.toEqual(['extension-unheeded']);
    const looks = `if not redis.call('zscore', KEYS[1], ARGV[1]) then return 1 end ${blind}`;
    await expect(idsOf(slots(looks))).resolves.toEqual([]);
  });
});

it('finds a release by two commands of a lock for which calls wait', async () => {
  const waiting = (release: string): string => `
import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
const DEL = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
export class Seats {
  constructor(private readonly redis: Redis) {}
  async lock(key: string): Promise<string | null> {
    const token = randomUUID();
    for (let attempt = 0; attempt < 10; attempt++) {
      if ((await this.redis.set(key, token, 'PX', 15_000, 'NX')) === 'OK') return token;
      await new Promise((resolve) => setTimeout(resolve, 80 + Math.random() * 80));
    }
    return null;
  }
  async unlock(key: string, token: string): Promise<void> { ${release} }
}`;
  const twoSteps = 'if ((await this.redis.get(key)) === token) await this.redis.del(key);';
  expect(await idsOfTyped(waiting(twoSteps))).toEqual(['two-step-release']);
  expect(await idsOfTyped(waiting('await this.redis.eval(DEL, 1, key, token);'))).toEqual([]);
});
