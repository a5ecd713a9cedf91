import { isUnknown } from './unknown.js';

type Method = (this: unknown, ...given: readonly unknown[]) => unknown;

/** Marks methods of which that has been done. */
const TAKES_TEXTS = Symbol('takes texts');

/**
 * Lets the clients of a package take what stands for something unknown as a text. It can be called, so that ioredis takes it for a callback
 * where it is the last argument, and node-redis rejects it.
 */
export function takeTexts(library: Readonly<Record<string, unknown>>): void {
  const { Redis: Client = library.default, createClient } = library;
  // ioredis and iovalkey have all commands on what their clients extend.
  if (typeof Client === 'function') wrapAll(Object.getPrototypeOf(Client.prototype ?? {}));
  if (typeof createClient !== 'function') return;
  const client: object = createClient();
  wrap(ownerOf(client, 'sendCommand'), 'sendCommand');
  // Transactions, and commands that are sent together.
  for (const name of ['_executeMulti', '_executePipeline']) wrap(ownerOf(client, name), name, asTexts);
}

function wrapAll(commands: object | null): void {
  if (commands === null || !('defineCommand' in commands)) return;
  for (const name of Object.getOwnPropertyNames(commands)) if (name !== 'constructor') wrap(commands, name);
}

function wrap(owner: object | null, name: string, taken: (given: unknown) => unknown = asText): void {
  const it: unknown = owner === null ? undefined : Reflect.get(owner, name);
  if (owner === null || typeof it !== 'function' || Object.hasOwn(it, TAKES_TEXTS)) return;
  const wrapped: Method = function (...given) {
    return Reflect.apply(it, this, given.map(taken));
  };
  Reflect.set(owner, name, Object.assign(wrapped, { [TAKES_TEXTS]: true }));
}

function ownerOf(of: object, name: string): object | null {
  let at: object | null = of;
  while (at !== null && !Object.hasOwn(at, name)) at = Object.getPrototypeOf(at);
  return at;
}

function asText(given: unknown): unknown {
  if (Array.isArray(given)) return given.some(isUnknown) ? given.map(asText) : given;
  return isUnknown(given) ? String(given) : given;
}

/** The same of a list of commands. */
function asTexts(given: unknown): unknown {
  if (!Array.isArray(given)) return given;
  return given.map((it: { readonly args?: unknown }) => ({ ...it, args: asText(it.args) }));
}
