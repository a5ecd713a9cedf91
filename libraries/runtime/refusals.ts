import childProcess from 'node:child_process';
import cluster from 'node:cluster';
import { promisify } from 'node:util';
import workerThreads from 'node:worker_threads';
import { current } from './owner.js';

/** What would start something real, or stop what is real, and what it would do. */
const REFUSED: readonly (readonly [object, string, readonly string[], string])[] = [
  [
    childProcess,
    'child_process',
    ['exec', 'execFile', 'execFileSync', 'execSync', 'fork', 'spawn', 'spawnSync'],
    'which would start a real process',
  ],
  [cluster, 'cluster', ['fork'], 'which would start a real process'],
  [Atomics, 'Atomics', ['wait', 'waitAsync'], 'which waits in real time'],
  [process, 'process', ['chdir'], 'which would move the process that the test runs in'],
];

type Method = (...args: unknown[]) => unknown;

/** Has a simulated process be refused by name before it starts anything real: afterwards it would be too late. */
export function installRefusals(): void {
  for (const [target, of, names, what] of REFUSED)
    for (const name of names) refuse(target, name, `${of}.${name}, ${what}`);
  const { Worker } = workerThreads;
  workerThreads.Worker = new Proxy(Worker, {
    construct(native, args, newTarget): object {
      const { owner } = current;
      if (owner !== null) throw owner.refuses('makes a Worker, which would start a real thread');
      return Reflect.construct(native, args, newTarget);
    },
  });
}

function refuse(target: object, name: string, what: string): void {
  const native: Method | undefined = Reflect.get(target, name);
  if (native === undefined) return;
  const value = refusing(native.bind(target), what);
  const promised: Method | undefined = Reflect.get(native, promisify.custom);
  if (promised !== undefined) Object.defineProperty(value, promisify.custom, { value: refusing(promised, what) });
  Object.defineProperty(target, name, { value, configurable: true, writable: true, enumerable: true });
}

function refusing(native: Method, what: string): Method {
  return (...args) => {
    const { owner } = current;
    if (owner !== null) throw owner.refuses(`calls ${what}`);
    return native(...args);
  };
}
