import dns from 'node:dns';
import dnsPromises from 'node:dns/promises';
import fs from 'node:fs';
import net from 'node:net';
import tls from 'node:tls';
import { current } from '../runtime/owner.js';
import { systemError } from './connection.js';
import { type Networked, SimSocket } from './socket.js';

type Method = (...args: unknown[]) => unknown;

/** The process that owns this event, if it has a network. */
function networked(): Networked | null {
  const { owner } = current;
  return owner !== null && 'network' in owner ? (owner as Networked) : null;
}

function replace(target: object, name: string, make: (native: Method) => Method): void {
  const methods = target as Record<string, Method>;
  const native = methods[name];
  if (native === undefined) return;
  const value = make(native.bind(target));
  Object.defineProperty(target, name, { value, configurable: true, writable: true, enumerable: true });
}

function connecting(isSecure: boolean): (native: Method) => Method {
  return (native) =>
    (...args) => {
      const owner = networked();
      if (owner === null) return native(...args);
      const [options] = args;
      const given = typeof options === 'object' && options !== null ? (options as net.SocketConstructorOpts) : {};
      const socket = new SimSocket(owner, given, isSecure);
      const { timeout } = given as { readonly timeout?: number };
      if (timeout !== undefined) socket.setTimeout(timeout);
      return socket.connect(...args);
    };
}

interface Found {
  readonly address: string;
  readonly family: 4;
}

function resolve(owner: Networked, host: string): Found | Error {
  const address = owner.network.lookup(host);
  if (address !== null) return { address, family: 4 };
  return Object.assign(systemError('getaddrinfo', 'ENOTFOUND', host), { hostname: host });
}

function isForAll(options: unknown): boolean {
  return typeof options === 'object' && options !== null && (options as { all?: boolean }).all === true;
}

function installDns(): void {
  replace(dns, 'lookup', (native) => (host, ...rest) => {
    const owner = networked();
    if (owner === null) return native(host, ...rest);
    const done = rest.at(-1) as (error: Error | null, ...found: unknown[]) => void;
    const found = resolve(owner, String(host));
    owner.setImmediate(() => {
      if (found instanceof Error) done(found);
      else if (isForAll(rest[0])) done(null, [found]);
      else done(null, found.address, found.family);
    });
    return undefined;
  });
  replace(dnsPromises, 'lookup', (native) => async (host, options) => {
    const owner = networked();
    if (owner === null) return native(host, options);
    const found = resolve(owner, String(host));
    if (found instanceof Error) throw found;
    return isForAll(options) ? [found] : found;
  });
}

/**
 * Puts dispatchers in the place of sockets and names, and of the reading of files, which some clients do as they connect:
 * what is read natively comes back in no event of the world.
 */
export function installNet(): void {
  replace(net, 'connect', connecting(false));
  replace(net, 'createConnection', connecting(false));
  replace(tls, 'connect', connecting(true));
  const Socket: typeof net.Socket = new Proxy(net.Socket, {
    construct(target, args, newTarget): net.Socket {
      const owner = newTarget === Socket ? networked() : null;
      return owner === null ? Reflect.construct(target, args, newTarget) : new SimSocket(owner, args[0]);
    },
  });
  for (const name of ['Socket', 'Stream'])
    Object.defineProperty(net, name, { value: Socket, configurable: true, writable: true, enumerable: true });
  installDns();
  replace(globalThis, 'fetch', (native) => (input, init) => {
    const owner = networked();
    return owner === null ? native(input, init) : owner.network.rest.fetch(input as string, init as RequestInit);
  });
  replace(fs.promises, 'readFile', (native) => async (path, options) => {
    if (networked() === null) return native(path, options);
    return fs.readFileSync(path as string, options as BufferEncoding);
  });
}
