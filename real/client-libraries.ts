import { createRequire } from 'node:module';
import type { AnyClient } from 'lockstep-redlock';

/*
 * Clients of other packages, as programs have them. The packages are development dependencies, so that an installed copy may not
 * have them: what is used of each is written down here instead of imported.
 */

const require = createRequire(import.meta.url);

/** Clients that locks are measured on, and chaos runs use, at the versions that this package is developed with. */
export type ClientLibrary = 'ioredis@5' | 'ioredis@6' | 'iovalkey' | 'node-redis@5' | 'node-redis@6';

/** By which name each is loaded, and its major version. */
const MODULES: Readonly<Record<ClientLibrary, readonly [module: string, major: string]>> = {
  'ioredis@5': ['ioredis', '5'],
  'ioredis@6': ['ioredis6', '6'],
  iovalkey: ['iovalkey', '0'],
  'node-redis@5': ['redis5', '5'],
  'node-redis@6': ['redis', '6'],
};

/** All of them. */
export const CLIENT_LIBRARIES: readonly ClientLibrary[] = Object.freeze(Object.keys(MODULES) as ClientLibrary[]);

/** A client of a program, which locks make their connections from. */
export interface ProgramClient {
  readonly client: AnyClient;
  /** Connects the client itself, for `send`; locks do not need it. */
  connect(): Promise<unknown>;
  send(words: readonly string[]): Promise<unknown>;
  close(): void;
}

interface Ioredis {
  on(event: 'error', listener: () => void): void;
  call(name: string, ...words: readonly string[]): Promise<unknown>;
  disconnect(): void;
}
type IoredisModule = Readonly<Record<'Redis', new (url: string, options: object) => Ioredis>>;

interface NodeRedis {
  readonly isOpen: boolean;
  on(event: 'error', listener: () => void): void;
  connect(): Promise<unknown>;
  sendCommand(words: readonly string[]): Promise<unknown>;
  destroy(): void;
}
interface NodeRedisModule {
  createClient(options: object): NodeRedis;
}

/** Whether a library can be loaded here, in its version. */
export function isLibraryInstalled(name: ClientLibrary): boolean {
  const [module, major] = MODULES[name];
  try {
    const { version }: { version: string } = require(`${module}/package.json`);
    return version.startsWith(`${major}.`);
  } catch {
    return false;
  }
}

/** Makes a client of one node. */
export function openClient(name: ClientLibrary, url: string): ProgramClient {
  const [module] = MODULES[name];
  return name.startsWith('node-redis') ? openNodeRedis(module, url) : openIoredis(module, url);
}

function openIoredis(module: string, url: string): ProgramClient {
  const { Redis }: IoredisModule = require(module);
  const client = new Redis(url, { disconnectTimeout: 1 });
  client.on('error', () => {});
  return {
    client: client as AnyClient & Ioredis,
    connect: async () => {},
    send: ([command = '', ...words]) => client.call(command, ...words),
    close: () => client.disconnect(),
  };
}

function openNodeRedis(module: string, url: string): ProgramClient {
  const { createClient }: NodeRedisModule = require(module);
  const client = createClient({ url, disableOfflineQueue: true });
  client.on('error', () => {});
  return {
    client: client as AnyClient & NodeRedis,
    connect: () => client.connect(),
    send: (words) => client.sendCommand(words),
    close: () => {
      if (client.isOpen) client.destroy();
    },
  };
}
