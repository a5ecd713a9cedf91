import os from 'node:os';
import { current } from './owner.js';

/** What says in which container a program runs. */
const MACHINE: readonly unknown[] = ['HOSTNAME', 'COMPUTERNAME', 'POD_NAME'];

/** Gives each simulated process a number, and a machine with a name of its own: tokens are made of them. */
export function installIdentity(): void {
  const { pid } = process;
  Object.defineProperty(process, 'pid', {
    configurable: true,
    enumerable: true,
    get: () => current.owner?.pid ?? pid,
  });
  const hostname = os.hostname.bind(os);
  os.hostname = () => current.owner?.name ?? hostname();
  process.env = new Proxy(process.env, {
    get: (env, name) => (MACHINE.includes(name) ? current.owner?.name : null) ?? Reflect.get(env, name),
    // As to itself: it makes texts of what it is given.
    set: (env, name, value) => Reflect.set(env, name, value),
  });
}
