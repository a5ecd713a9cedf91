import http from 'node:http';
import os from 'node:os';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

const INSTANCE = `${os.hostname()}:${process.pid}`;
const LOCK_TTL_MS = 30_000;
const WAIT_MS = 8_000;

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;

/**
 * Re-entrant lock: appendClause() holds the contract and calls renumber(), which takes
 * it again, and renumber() is also called alone.
 */
export class ContractLocks {
  #redis;
  #held = new Map(); // key -> { token, depth }

  constructor(redis) {
    this.#redis = redis;
  }

  async enter(contractId) {
    const key = `contract:${contractId}:lock`;
    const token = `${INSTANCE}:${randomUUID()}`;
    const giveUpAt = Date.now() + WAIT_MS;

    for (;;) {
      const own = this.#held.get(key);
      if (own) {
        own.depth += 1;
        return;
      }
      const reply = await this.#redis.set(key, token, { NX: true, PX: LOCK_TTL_MS });
      if (reply === 'OK') {
        this.#held.set(key, { token, depth: 1 });
        return;
      }
      if (Date.now() > giveUpAt) {
        throw Object.assign(new Error(`contract ${contractId} is locked`), { status: 423 });
      }
      await sleep(60 + Math.random() * 60);
    }
  }

  async leave(contractId) {
    const key = `contract:${contractId}:lock`;
    const own = this.#held.get(key);
    if (!own) return;
    own.depth -= 1;
    if (own.depth > 0) return;
    this.#held.delete(key);
    await this.#redis.eval(UNLOCK, { keys: [key], arguments: [own.token] });
  }

  async run(contractId, fn) {
    await this.enter(contractId);
    try {
      return await fn();
    } finally {
      await this.leave(contractId).catch((err) => console.error('unlock', contractId, err.message));
    }
  }
}

export class Contracts {
  constructor(locks, docs) {
    this.locks = locks;
    this.docs = docs; // load(id), save(id, doc); each gives up after three seconds
  }

  renumber(id) {
    return this.locks.run(id, async () => {
      const doc = await this.docs.load(id);
      doc.clauses.forEach((clause, i) => { clause.number = i + 1; });
      await this.docs.save(id, doc);
      return doc;
    });
  }

  appendClause(id, text) {
    return this.locks.run(id, async () => {
      const doc = await this.docs.load(id);
      doc.clauses.push({ text, addedAt: new Date().toISOString() });
      await this.docs.save(id, doc);
      return this.renumber(id);
    });
  }
}

export async function serve(docs, port = Number(process.env.PORT ?? 8080)) {
  const redis = createClient({ url: process.env.REDIS_URL });
  redis.on('error', (err) => console.error('redis', err.message));
  await redis.connect();
  const contracts = new Contracts(new ContractLocks(redis), docs);

  return http.createServer(async (req, res) => {
    const match = /^\/contracts\/([\w-]+)\/clauses$/.exec(req.url ?? '');
    if (req.method !== 'POST' || !match) return res.writeHead(404).end();
    try {
      let text = '';
      for await (const chunk of req) text += chunk;
      const doc = await contracts.appendClause(match[1], text);
      res.writeHead(201, { 'content-type': 'application/json' }).end(JSON.stringify(doc));
    } catch (err) {
      console.error(err);
      res.writeHead(err.status ?? 500).end();
    }
  }).listen(port);
}
