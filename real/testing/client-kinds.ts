import { Redis as Upstash } from '@upstash/redis';
import { Redis } from 'ioredis';
import { Redis as Redis6 } from 'ioredis6';
import { Redis as Valkey } from 'iovalkey';
import type { AnyClient, NodeRedisClient, RedlockTransport } from 'lockstep-redlock';
import { createClient } from 'redis';
import { createClient as createClient5 } from 'redis5';
import { RestBridge } from '../chaos/rest-bridge.js';

/** A client as a program has it, with the options that its library has by default. */
export interface MadeClient {
  readonly client: AnyClient;
  /** Ends it. */
  close(): void;
}

/** Makes clients of one library. */
export type ClientKind = (url: string) => Promise<MadeClient>;

function ofIoredis(make: (url: string) => Redis | Redis6 | Valkey): ClientKind {
  return async (url) => {
    const client = make(url);
    client.on('error', () => {});
    return { client, close: () => client.disconnect() };
  };
}

/** The program's own client is not connected: locks do not use it. */
function ofNodeRedis(make: (url: string) => NodeRedisClient): ClientKind {
  return async (url) => ({ client: make(url), close: () => {} });
}

/** A transport as anybody could write it, on a library that the lock does not know in this form. */
const ofTransport: ClientKind = async (url) => {
  const transport: RedlockTransport = {
    openSession: ({ onReady, onEnd }) => {
      const connection = new Valkey(url, { lazyConnect: true, retryStrategy: () => null, enableOfflineQueue: false });
      let reason: unknown = 'closed';
      connection.on('connect', () => connection.stream.unref());
      connection.on('ready', onReady);
      connection.on('error', (error) => {
        reason = error;
      });
      connection.on('end', () => onEnd(reason));
      connection.connect().catch(() => undefined);
      return {
        send: ([name = '', ...words]) => connection.call(name, ...words),
        close: () => connection.disconnect(),
      };
    },
  };
  return { client: transport, close: () => {} };
};

/** Upstash by its own client. */
const ofUpstash: ClientKind = async (url) => {
  const bridge = await RestBridge.open(url, 'the-token');
  return { client: new Upstash({ url: bridge.url, token: bridge.token }), close: () => bridge.close() };
};

const kinds: readonly [string, ClientKind][] = [
  ['ioredis 5', ofIoredis((url) => new Redis(url))],
  ['ioredis 6', ofIoredis((url) => new Redis6(url))],
  ['iovalkey', ofIoredis((url) => new Valkey(url))],
  ['node-redis 5', ofNodeRedis((url) => createClient5({ url }))],
  ['node-redis 6', ofNodeRedis((url) => createClient({ url }))],
  ['Upstash', ofUpstash],
  ['a URL', async (url) => ({ client: url, close: () => {} })],
  ['a transport', ofTransport],
];

let taken = 0;

/** Each library that a lock can use, and all of them in turns. */
export const CLIENT_KINDS: readonly [string, ClientKind][] = [
  ...kinds,
  ['all kinds, mixed', (url) => (kinds[taken++ % kinds.length]?.[1] ?? ofTransport)(url)],
];
