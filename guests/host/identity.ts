import os from 'node:os';
import { current } from './owner.js';

/** Gives each simulated process a number and a machine of its own: tokens are made of them. */
export function installIdentity(): void {
  const { pid } = process;
  Object.defineProperty(process, 'pid', {
    configurable: true,
    enumerable: true,
    get: () => current.owner?.pid ?? pid,
  });
  const hostname = os.hostname.bind(os);
  os.hostname = () => current.owner?.name ?? hostname();
}
