import { readable } from './arguments.js';
import type { RedlockSession, RedlockTransport, SessionListener } from './session.js';

/** A client of node-redis 5 or 6 (package redis), of which locks make connections of their own. */
export interface NodeRedisClient {
  duplicate(options: object): unknown;
  sendCommand(words: readonly string[]): Promise<unknown>;
  readonly options?: object;
}

/** What a duplicate of such a client is used for. */
interface OwnClient {
  on(event: 'error' | 'ready' | 'connect', listener: (error: Error) => void): unknown;
  connect(): Promise<unknown>;
  sendCommand(words: readonly string[]): Promise<unknown>;
  unref(): void;
  destroy(): void;
}

interface NodeRedisOptions {
  readonly socket?: object;
  readonly keyPrefix?: unknown;
}

/** Nothing is queued for a node that is away, nothing is sent twice, and replies are what the server sent. */
const OWN_OPTIONS = {
  disableOfflineQueue: true,
  commandsQueueMaxLength: undefined,
  // Without a time-out and without other types for replies.
  commandOptions: { timeout: undefined },
  pingInterval: undefined,
  clientSideCache: undefined,
  emitInvalidate: false,
  // It would hold commands back while a server is being moved.
  maintNotifications: 'disabled',
  readonly: false,
};
const OWN_SOCKET = { reconnectStrategy: false, socketTimeout: undefined };

/** The way to the node of a client of node-redis. */
export function nodeRedisTransport(client: NodeRedisClient): RedlockTransport {
  const { socket, keyPrefix }: NodeRedisOptions = readable('A client', () => client.options) ?? {};
  const options = { ...OWN_OPTIONS, socket: { ...socket, ...OWN_SOCKET } };
  return {
    keyPrefix: keyPrefix === undefined ? '' : String(keyPrefix),
    openSession: (listener) => openSession(client.duplicate(options) as OwnClient, listener),
  };
}

function openSession(client: OwnClient, listener: SessionListener): RedlockSession {
  let hasSocket = false;
  let isClosed = false;
  const destroy = () => {
    try {
      client.destroy();
    } catch {
      // node-redis 5 throws if the connection has ended already.
    }
  };
  client.unref();
  // What it calls an error is the end: it does not connect again.
  client.on('error', (error) => listener.onEnd(error));
  client.on('connect', () => {
    hasSocket = true;
    if (isClosed) destroy();
  });
  client.on('ready', () => listener.onReady());
  client.connect().catch((error: unknown) => {
    destroy();
    listener.onEnd(error);
  });
  return {
    send: (words) => client.sendCommand(words),
    close: () => {
      isClosed = true;
      // Before that, node-redis 5 would leave the socket open that it is making.
      if (hasSocket) destroy();
    },
  };
}
