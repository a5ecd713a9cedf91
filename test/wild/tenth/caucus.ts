import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';

export interface CaucusOptions {
  nodeTimeoutMs?: number;
  attempts?: number;
  onNodeError?: (err: Error, index: number) => void;
}

export interface Gavel {
  readonly signal: AbortSignal;
  isValid(): boolean;
  release(): Promise<void>;
}

const UNLOCK = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  end
  return 0
`;

/** Settles a node's reply. A broken or slow node must not take the others down with it. */
function guarded<T>(promise: Promise<T>, ms: number, report: (err: Error) => void): Promise<T | undefined> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => {
      report(new Error(`no reply within ${ms} ms`));
      resolve(undefined);
    }, ms);
    promise.then(
      (value) => {
        clearTimeout(timer);
        resolve(value);
      },
      (err) => {
        clearTimeout(timer);
        report(err);
        resolve(undefined);
      },
    );
  });
}

export function makeCaucus(nodes: Redis[], options: CaucusOptions = {}) {
  const { nodeTimeoutMs = 200, attempts = 10, onNodeError = () => {} } = options;
  const quorum = Math.floor(nodes.length / 2) + 1;

  const broadcast = <T>(ms: number, command: (node: Redis) => Promise<T>) =>
    Promise.all(
      nodes.map((node, i) => guarded(command(node), Math.min(ms, nodeTimeoutMs), (err) => onNodeError(err, i))),
    );

  const unlock = (key: string, token: string) => broadcast(1000, (node) => node.eval(UNLOCK, 1, key, token));

  async function acquire(resource: string, ttlMs: number): Promise<Gavel> {
    const key = `caucus:${resource}`;

    for (let i = 0; i < attempts; i++) {
      const token = randomBytes(16).toString('hex');
      const start = performance.now();
      const replies = await broadcast(ttlMs / 3, (node) => node.set(key, token, 'PX', ttlMs, 'NX'));
      const deadline = start + ttlMs - ttlMs * 0.01 - 2;

      // SET .. NX answers null when the key is there already
      const granted = replies.filter((reply) => reply !== null).length;

      if (granted >= quorum && performance.now() < deadline) {
        return gavel(key, token, deadline);
      }

      await unlock(key, token);
      await new Promise((resolve) => setTimeout(resolve, 50 + Math.random() * 100));
    }

    throw new Error(`caucus: could not get ${resource}`);
  }

  function gavel(key: string, token: string, deadline: number): Gavel {
    const controller = new AbortController();
    let released = false;
    const alarm = setTimeout(
      () => controller.abort(new Error(`${key} expired`)),
      Math.max(0, Math.floor(deadline - performance.now())),
    );
    return {
      signal: controller.signal,
      isValid: () => !released && !controller.signal.aborted && performance.now() < deadline,
      release: async () => {
        if (released) return;
        released = true;
        clearTimeout(alarm);
        await unlock(key, token);
      },
    };
  }

  return { acquire };
}

export const make = ({ nodes }: { nodes: Redis[] }) => makeCaucus(nodes);
