import { createRequire } from 'node:module';
import { type AnyClient, Redlock } from 'lockstep-redlock';
import type { BenchCluster } from './cluster.js';
import { floorOn, lockSettings, type Retries, type SendWords, type Subject, subjectOf } from './subjects.js';
import type { BenchClient } from './types.js';

/*
 * The lock on the clients of other packages, and beside it the bare commands on the same client. The packages are development
 * dependencies, so that an installed copy may not have them: what is used of each is written down here instead of imported.
 */

const require = createRequire(import.meta.url);

/** A client of a program, which locks make their connections from. */
interface Connected {
  readonly client: AnyClient;
  readonly send: SendWords;
  close(): void;
}

interface Ioredis {
  on(event: 'error', listener: () => void): void;
  call(name: string, ...words: readonly string[]): Promise<unknown>;
  disconnect(): void;
}
type IoredisModule = Readonly<Record<'Redis', new (url: string) => Ioredis>>;

interface NodeRedis {
  on(event: 'error', listener: () => void): void;
  connect(): Promise<unknown>;
  sendCommand(words: readonly string[]): Promise<unknown>;
  destroy(): void;
}
interface NodeRedisModule {
  createClient(options: object): NodeRedis;
}

/** By which name each is loaded, and its major version. */
const MODULES: Readonly<Record<BenchClient, readonly [module: string, major: string]>> = {
  'ioredis@5': ['ioredis', '5'],
  'ioredis@6': ['ioredis6', '6'],
  iovalkey: ['iovalkey', '0'],
  'node-redis@5': ['redis5', '5'],
  'node-redis@6': ['redis', '6'],
};

/** Whether a client can be loaded here, in its version. */
export function isClientInstalled(name: BenchClient): boolean {
  const [module, major] = MODULES[name];
  try {
    const { version }: { version: string } = require(`${module}/package.json`);
    return version.startsWith(`${major}.`);
  } catch {
    return false;
  }
}

/** The lock on a client, and its floor: the commands on the same client, with a time-out for each round. */
export function clientSubjects(name: BenchClient): ((cluster: BenchCluster, retries: Retries) => Promise<Subject>)[] {
  return [
    async ({ urls }, retries) => {
      const connected = await connect(name, urls);
      const redlock = new Redlock(
        connected.map(({ client }) => client),
        lockSettings(retries),
      );
      const subject = subjectOf(`lockstep on ${name}`, redlock);
      return { ...subject, close: () => subject.close().finally(() => closeAll(connected)) };
    },
    async ({ urls }) => {
      const connected = await connect(name, urls);
      const senders = connected.map(({ send }) => send);
      return { ...(await floorOn(`floor on ${name}`, senders)), close: async () => closeAll(connected) };
    },
  ];
}

function connect(name: BenchClient, urls: readonly string[]): Promise<Connected[]> {
  const [module] = MODULES[name];
  const open = name.startsWith('node-redis') ? nodeRedisOf(module) : ioredisOf(module);
  return Promise.all(urls.map(open));
}

function closeAll(connected: readonly Connected[]): void {
  for (const { close } of connected) close();
}

function ioredisOf(module: string): (url: string) => Promise<Connected> {
  const { Redis }: IoredisModule = require(module);
  return async (url) => {
    const client = new Redis(url);
    client.on('error', () => {});
    const send: SendWords = ([command = '', ...words]) => client.call(command, ...words);
    return { client: client as AnyClient & Ioredis, send, close: () => client.disconnect() };
  };
}

function nodeRedisOf(module: string): (url: string) => Promise<Connected> {
  const { createClient }: NodeRedisModule = require(module);
  return async (url) => {
    const client = createClient({ url, disableOfflineQueue: true });
    client.on('error', () => {});
    await client.connect();
    const send: SendWords = (words) => client.sendCommand(words);
    return { client: client as AnyClient & NodeRedis, send, close: () => client.destroy() };
  };
}
