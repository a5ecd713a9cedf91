import { randomBytes } from 'node:crypto';
import type { MakeLock } from 'lockstep/testing';

const MS = 1_000_000n;
const unlockScript = 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end';

function deadlineFrom(start: bigint, ttlMs: number): bigint {
  const driftMs = Math.ceil(ttlMs * 0.01) + 2;
  return start + BigInt(ttlMs - driftMs) * MS;
}

function orFalse(promise: Promise<unknown>, good: (reply: unknown) => boolean, ms: number): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms, false);
    promise
      .then(good, () => false)
      .then((result) => {
        clearTimeout(timer);
        resolve(result);
      });
  });
}

export const make: MakeLock = ({ nodes }) => {
  const needed = Math.floor(nodes.length / 2) + 1;

  async function unlock(name: string, id: string) {
    await Promise.all(nodes.map((n) => orFalse(n.eval(unlockScript, 1, name, id), () => true, 150)));
  }

  async function tryLock(name: string, ttlMs: number) {
    const id = randomBytes(16).toString('hex');
    const start = process.hrtime.bigint();
    const deadline = deadlineFrom(start, ttlMs);
    let open = true;

    const votes = await Promise.all(
      nodes.map((n) => {
        const reply = n.set(name, id, 'PX', ttlMs, 'NX');
        reply.then((r) => {
          if (!open && r === 'OK') return orFalse(n.eval(unlockScript, 1, name, id), () => true, 150);
        }).catch(() => {});
        return orFalse(reply, (r) => r === 'OK', 150);
      }),
    );

    if (votes.filter((v) => v).length >= needed && process.hrtime.bigint() < deadline) {
      return {
        isValid: () => open && process.hrtime.bigint() < deadline,
        async release() {
          open = false;
          await unlock(name, id);
        },
      };
    }
    open = false;
    await unlock(name, id);
    return null;
  }

  return {
    async acquire(name: string, ttlMs: number) {
      let lock = await tryLock(name, ttlMs);
      for (let retry = 0; lock === null && retry < 4; retry++) {
        await new Promise((wake) => setTimeout(wake, 100 + Math.random() * 150));
        lock = await tryLock(name, ttlMs);
      }
      return lock;
    },
  };
};
