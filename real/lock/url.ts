import { type NodeRedisClient, nodeRedisTransport } from './node-redis.js';
import type { RedlockSession, RedlockTransport, SessionListener } from './session.js';

/** Whether a text is the URL of a server. */
export function isRedisUrl(text: string): boolean {
  return /^rediss?:\/\/./.test(text) && URL.canParse(text);
}

/** The way to the node at a URL, by node-redis or else ioredis: whichever is installed. */
export function urlTransport(url: string): RedlockTransport {
  // Once: to make a client of node-redis takes longer than to connect it.
  let transport: Promise<RedlockTransport> | undefined;
  return {
    openSession: (listener) => {
      transport ??= transportTo(url);
      return new LateSession(transport, listener);
    },
  };
}

async function transportTo(url: string): Promise<RedlockTransport> {
  const nodeRedis = await installed<{ createClient(options: object): NodeRedisClient }>('redis');
  if (nodeRedis !== null) return nodeRedisTransport(nodeRedis.createClient({ url }));
  const ioredis = await installed<{ Redis: new (url: string, options: object) => IoredisConnection }>('ioredis');
  if (ioredis !== null) return ioredisTransport((options) => new ioredis.Redis(url, options));
  throw new Error('A URL needs a client to be installed: npm install redis, or ioredis.');
}

/**
 * `null` if it is not there. Bundlers leave the import as it is, by the comments and as the name is no literal: what it names need
 * not be there when they run.
 */
async function installed<T>(name: string): Promise<T | null> {
  try {
    return await import(/* webpackIgnore: true */ /* turbopackIgnore: true */ /* @vite-ignore */ name);
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ERR_MODULE_NOT_FOUND') return null;
    throw error;
  }
}

/** A session of a transport that is not here yet. */
class LateSession implements RedlockSession {
  #session: RedlockSession | null = null;
  #isClosed = false;

  constructor(transport: Promise<RedlockTransport>, listener: SessionListener) {
    transport.then(
      (it) => {
        if (!this.#isClosed) this.#session = it.openSession(listener);
      },
      (reason) => listener.onEnd(reason),
    );
  }

  async send(words: readonly string[]): Promise<unknown> {
    if (this.#session === null) throw new Error('The node is not connected.');
    return this.#session.send(words);
  }

  close(): void {
    this.#isClosed = true;
    this.#session?.close();
  }
}

interface IoredisConnection {
  readonly stream?: { unref?(): void };
  on(event: 'connect' | 'ready' | 'error' | 'end', listener: (error: Error) => void): unknown;
  connect(): Promise<unknown>;
  call(name: string, ...words: readonly string[]): Promise<unknown>;
  disconnect(): void;
}

/** The same way for what ioredis makes, which says that it ended without saying why. */
function ioredisTransport(make: (options: object) => IoredisConnection): RedlockTransport {
  return {
    openSession: ({ onReady, onEnd }) => {
      const connection = make({
        lazyConnect: true,
        enableOfflineQueue: false,
        autoResendUnfulfilledCommands: false,
        maxRetriesPerRequest: 0,
        retryStrategy: () => null,
        disconnectTimeout: 1,
      });
      let reason = new Error('Connection is closed.');
      connection.on('connect', () => connection.stream?.unref?.());
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
}
