import { randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import type { Redis } from 'ioredis';
import type { MakeLock } from 'lockstep/testing';

type Callback<T> = (error: Error | null, value?: T) => void;

const SCRIPT = 'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end';

function command(promise: Promise<unknown>, callback: Callback<unknown>): void {
  let called = false;
  const once: Callback<unknown> = (error, value) => {
    if (called) return;
    called = true;
    clearTimeout(timer);
    callback(error, value);
  };
  const timer = setTimeout(() => once(new Error('timeout')), 150);
  promise.then(
    (value) => once(null, value),
    (error) => once(error),
  );
}

function Redlock(this: any, nodes: Redis[]) {
  this.nodes = nodes;
  this.quorum = Math.floor(nodes.length / 2) + 1;
  this.retryCount = 4;
  this.retryDelay = 80;
}

Redlock.prototype.unlock = function (resource: string, token: string, callback: Callback<void>) {
  let waiting = this.nodes.length;
  this.nodes.forEach((node: Redis) => {
    command(node.eval(SCRIPT, 1, resource, token), () => {
      if (--waiting === 0) callback(null);
    });
  });
};

Redlock.prototype.lock = function (resource: string, ttl: number, callback: Callback<object>) {
  const self = this;
  let attempts = 0;

  function attempt() {
    const token = randomBytes(16).toString('hex');
    const start = performance.now();
    let waiting = self.nodes.length;
    let votes = 0;
    attempts++;

    self.nodes.forEach((node: Redis) => {
      command(node.set(resource, token, 'PX', ttl, 'NX'), (error, reply) => {
        if (!error && reply === 'OK') votes++;
        if (--waiting === 0) finish();
      });
    });

    function finish() {
      const drift = Math.round(0.01 * ttl) + 2;
      const deadline = start + ttl - drift;
      if (votes >= self.quorum && performance.now() < deadline) {
        return callback(null, {
          isExpired: () => performance.now() >= deadline,
          unlock: promisify(self.unlock.bind(self, resource, token)),
        });
      }
      self.unlock(resource, token, () => {
        if (attempts > self.retryCount) return callback(new Error(`${resource} is taken`));
        setTimeout(attempt, self.retryDelay + Math.random() * 120);
      });
    }
  }

  attempt();
};

export const make: MakeLock = ({ nodes }) => {
  const redlock = new (Redlock as any)(nodes);
  return { acquire: promisify(redlock.lock.bind(redlock)) as (resource: string, ttl: number) => Promise<unknown> };
};
