import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

/*
 * Locks of the billing jobs. Own connections, because the shared ones have blocking commands on them.
 */

const UNLOCK = 'if redis.call("get",KEYS[1])==ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end';
const TOUCH =
  'if redis.call("get",KEYS[1])~=ARGV[1] then return 0 end ' +
  'if redis.call("pttl",KEYS[1])<tonumber(ARGV[2]) then redis.call("pexpire",KEYS[1],ARGV[2]) end return 1';

interface Ticket {
  readonly name: string;
  readonly secret: string;
  ttl: number;
  deadline: number;
  returned: boolean;
  remaining(): number;
}

function nap(ms: number): Promise<void> {
  return new Promise((wake) => setTimeout(wake, ms));
}

function limit<T>(ms: number, promise: Promise<T>): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no answer in ${ms} ms`)), ms);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

async function ballot(redises: Redis[], ms: number, question: (redis: Redis) => Promise<boolean>): Promise<boolean> {
  const outcomes = await Promise.allSettled(redises.map((redis) => limit(ms, question(redis))));
  const inFavour = outcomes.filter((outcome) => outcome.status === 'fulfilled' && outcome.value).length;
  return inFavour > redises.length / 2;
}

async function unlock(redises: Redis[], ticket: Ticket): Promise<void> {
  ticket.returned = true;
  const tell = (redis: Redis) => limit(ticket.ttl / 6, redis.eval(UNLOCK, 1, ticket.name, ticket.secret));
  await Promise.all(
    redises.map((redis) =>
      tell(redis)
        .catch(() => tell(redis))
        .catch(() => undefined),
    ),
  );
}

async function lock(redises: Redis[], name: string, ttl: number): Promise<Ticket | null> {
  const ticket: Ticket = {
    name,
    secret: randomBytes(20).toString('base64url'),
    ttl,
    deadline: 0,
    returned: false,
    remaining() {
      return this.returned ? 0 : this.deadline - performance.now();
    },
  };
  const t0 = performance.now();
  const elected = await ballot(redises, ttl / 5, async (redis) => {
    const ok = (await redis.set(name, ticket.secret, 'PX', ttl, 'NX')) === 'OK';
    if (ok && ticket.returned) redis.eval(UNLOCK, 1, name, ticket.secret).catch(() => {});
    return ok;
  });
  ticket.deadline = t0 + ttl - (ttl * 0.015 + 3);
  if (elected && ticket.remaining() > 0) return ticket;
  await unlock(redises, ticket);
  return null;
}

async function touch(redises: Redis[], ticket: Ticket, ttl: number): Promise<boolean> {
  if (ticket.remaining() <= 0) return false;
  const deadline = performance.now() + ttl - (ttl * 0.015 + 3);
  ticket.ttl = ttl;
  ticket.deadline = Math.min(ticket.deadline, deadline);
  const kept = await ballot(
    redises,
    ttl / 5,
    async (redis) => (await redis.eval(TOUCH, 1, ticket.name, ticket.secret, ttl)) === 1,
  );
  if (!kept || ticket.remaining() <= 0) return false;
  ticket.deadline = deadline;
  return true;
}

export const make: MakeLock = ({ addresses }) => {
  const redises = addresses.map(({ url }) => {
    const redis = new Redis(url, {
      connectTimeout: 1000,
      maxRetriesPerRequest: 1,
      autoResendUnfulfilledCommands: false,
      retryStrategy: (times) => Math.min(times * 40, 400),
    });
    redis.on('error', () => {});
    return redis;
  });
  return {
    async acquire(resource, ttlMs) {
      const patience = performance.now() + 4 * ttlMs + 1000;
      for (;;) {
        const ticket = await lock(redises, `billing:${resource}`, ttlMs);
        if (ticket !== null) return ticket;
        if (performance.now() > patience) return null;
        await nap(ttlMs * (0.03 + 0.12 * Math.random()));
      }
    },
    release: (held) => unlock(redises, held as Ticket),
    extend: (held, ttlMs) => touch(redises, held as Ticket, ttlMs),
  };
};
