import { current } from './owner.js';

/** Ways in which a program ends its process, or all of a thread. */
const EXITS = ['exit', 'reallyExit', 'abort', 'kill'] as const;

/** Has a simulated process that ends the real one, or another, be refused by name instead. */
export function installExits(): void {
  const methods = process as unknown as Record<string, (...args: unknown[]) => unknown>;
  for (const name of EXITS) {
    const native = methods[name]?.bind(process);
    if (native === undefined) continue;
    const value = (...args: unknown[]): unknown => {
      const { owner } = current;
      if (owner === null) return native(...args);
      throw owner.refuses(`calls process.${name}, which would end the process that the test runs in`);
    };
    Object.defineProperty(process, name, { value, configurable: true, writable: true });
  }
}
