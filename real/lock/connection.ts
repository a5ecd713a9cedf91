import { withoutArguments } from '../../text/secrets.js';
import { connectionShapeError, isNodeRedis, isTransport } from './client-shape.js';
import { configError } from './errors.js';
import { type FirstLook, firstLook } from './first-look.js';
import { type NodeRedisClient, nodeRedisTransport } from './node-redis.js';
import {
  type Comparisons,
  type LockWords,
  loadScripts,
  NO_COMPARISONS,
  type RedisConnection,
  type Request,
  write,
} from './request.js';
import { type RestAddress, restAddressOf, restTransport, type UpstashClient } from './rest.js';
import { type RedlockTransport, SessionConnection } from './session.js';
import { detectFastPath, type FastPath } from './shortcut.js';
import { destroyStream, unrefStream } from './socket.js';
import { urlTransport } from './url.js';

/** The options of an own connection, which overrule those of the client it is made from. */
export interface ConnectionOptions {
  readonly lazyConnect: true;
  readonly enableOfflineQueue: false;
  readonly autoResendUnfulfilledCommands: false;
  readonly maxRetriesPerRequest: 0;
  readonly retryStrategy: () => null;
  readonly sentinelRetryStrategy: () => null;
  readonly reconnectOnError: null;
  readonly enableAutoPipelining: false;
  readonly enableReadyCheck: true;
  readonly readOnly: false;
  readonly monitor: false;
  readonly stringNumbers: false;
  readonly autoResubscribe: false;
  readonly disconnectTimeout: 1;
}

/**
 * Nothing is queued for a node that is away and nothing is sent twice: a SET that arrives after its lock was given up
 * would be a key that nobody releases. Time-outs are the lock's own.
 */
const CONNECTION: ConnectionOptions & { readonly commandTimeout: undefined; readonly socketTimeout: undefined } = {
  lazyConnect: true,
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  // Reconnecting is done here, with timers that do not keep the process alive.
  retryStrategy: () => null,
  sentinelRetryStrategy: () => null,
  reconnectOnError: null,
  commandTimeout: undefined,
  socketTimeout: undefined,
  enableAutoPipelining: false,
  enableReadyCheck: true,
  readOnly: false,
  monitor: false,
  stringNumbers: false,
  autoResubscribe: false,
  // How long ioredis keeps the process alive after `disconnect`, even if the socket is long gone.
  disconnectTimeout: 1,
};

/** The options of an own connection to a Redis Cluster that is one node of the lock. */
export interface ClusterConnectionOptions {
  readonly lazyConnect: true;
  readonly enableOfflineQueue: false;
  readonly enableAutoPipelining: false;
  readonly clusterRetryStrategy: () => null;
  readonly scaleReads: 'master';
  readonly retryDelayOnFailover: 0;
  readonly retryDelayOnClusterDown: 0;
  readonly retryDelayOnTryAgain: 0;
  readonly redisOptions: object;
}

/** Redirections are followed, because a redirected command was not carried out; nothing else is sent twice. */
function clusterConnection(options: { readonly redisOptions?: object } | undefined): ClusterConnectionOptions {
  const { lazyConnect, enableOfflineQueue, retryStrategy, sentinelRetryStrategy, ...forEach } = CONNECTION;
  return {
    lazyConnect,
    enableOfflineQueue,
    enableAutoPipelining: false,
    clusterRetryStrategy: () => null,
    scaleReads: 'master',
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    retryDelayOnTryAgain: 0,
    redisOptions: { ...options?.redisOptions, ...forEach },
  };
}

/**
 * An ioredis client, of which locks make connections of their own and which they leave alone otherwise. It leads to one
 * Redis, by address or through Sentinel, or to a Redis Cluster, which then is one node.
 */
export interface RedlockClient {
  duplicate(options: ConnectionOptions): RedisConnection;
  readonly options?: object;
}

/** The same of a Cluster: `isCluster` tells it from the other. */
export interface RedlockClusterClient {
  duplicate(startupNodes: never[], options: ClusterConnectionOptions): RedisConnection;
  readonly options?: object;
  readonly isCluster: boolean;
}

/**
 * What leads to a node: a client of a library that the lock knows, and for others a {@link RedlockTransport}. A text is the URL
 * of a server (`redis://…`, `rediss://…`), reached by node-redis or else by ioredis.
 */
export type AnyClient =
  | RedlockClient
  | RedlockClusterClient
  | NodeRedisClient
  | UpstashClient
  | RestAddress
  | RedlockTransport
  | string;

function isClusterClient(client: RedlockClient | RedlockClusterClient): client is RedlockClusterClient {
  return 'isCluster' in client && client.isCluster === true;
}

/** Who is told how a link fares. */
interface ConnectionListener {
  /** Returns whether it may be used; if not, it is dropped. */
  onLinkReady(link: NodeConnection, look: FirstLook): boolean;
  onLinkEnd(link: NodeConnection): void;
  onLinkError(error: Error): void;
}

const UNSEEN: FirstLook = { servers: [], comparisons: NO_COMPARISONS, fault: null };
/** How long a node that took a connection may take to answer what is asked first, ms. */
const FIRST_LOOK_MS = 2000;

/** One connection to a node. It connects once; to connect again, call {@link NodeConnection.open}. */
export class NodeConnection {
  readonly connection: RedisConnection;
  readonly #owner: ConnectionListener;
  #ready = false;
  /** Counts connections made and lost, so that what was asked of one that is gone is not taken for the next one's. */
  #turn = 0;
  /** Another one for each connection that it made. */
  session: object = {};
  #shortcut: FastPath | null = null;
  #comparisons: Comparisons = NO_COMPARISONS;

  /** @throws LockError `ERR_LOCK_CONFIG` if the client makes no connections. */
  constructor(client: AnyClient, owner: ConnectionListener) {
    this.connection = connectionOf(client);
    this.#owner = owner;
    this.connection.on('error', (error: Error) => owner.onLinkError(withoutArguments(error)));
    // Lets the process end: a caller that waits for an answer keeps it alive with a timer.
    this.connection.on('connect', () => unrefStream(this.connection));
    this.connection.on('ready', () => this.#prepare());
    this.connection.on('close', () => this.#lose());
    this.connection.on('end', () => {
      this.#lose();
      owner.onLinkEnd(this);
    });
  }

  get ready(): boolean {
    return this.#ready;
  }

  /**
   * A request in words that compare without a script; `null` where this server, or the client, takes a script. ioredis's own
   * methods put no key prefix before keys of commands that it does not know.
   */
  comparing(request: Request): LockWords | null {
    if (!this.#comparisons.sets) return null;
    const passesAll = this.#shortcut !== null || this.connection instanceof SessionConnection;
    return passesAll ? request.comparedBy(this.#comparisons) : null;
  }

  /** Takes scripts from now on: the server refused to compare. */
  stopComparing(): void {
    this.#comparisons = NO_COMPARISONS;
  }

  /** Sends a command. The reply is read by `replyOf`; an error reply rejects, and so does the end of the connection. */
  send(words: LockWords): Promise<unknown> {
    if (this.#shortcut !== null) return this.#shortcut(words);
    return this.connection instanceof SessionConnection ? this.connection.send(words) : write(this.connection, words);
  }

  /** It is ready for locks once it is known where it leads to and what its SET does. */
  #prepare(): void {
    const turn = ++this.#turn;
    this.session = {};
    void loadScripts(this.connection);
    void this.#findShortcut();
    const looking = firstLook(this.connection);
    if (looking === undefined) {
      this.#admit(UNSEEN);
      return;
    }
    const timer = setTimeout(() => this.drop(), FIRST_LOOK_MS).unref();
    void looking.then((look) => {
      clearTimeout(timer);
      if (turn === this.#turn) this.#admit(look);
    });
  }

  #admit(look: FirstLook): void {
    this.#ready = true;
    this.#comparisons = look.comparisons;
    if (!this.#owner.onLinkReady(this, look)) this.drop();
  }

  #lose(): void {
    this.#ready = false;
    this.#turn++;
  }

  async #findShortcut(): Promise<void> {
    this.#shortcut ??= await detectFastPath(this.connection);
  }

  open(): void {
    // What went wrong arrives as an event too.
    this.connection.connect().catch(() => undefined);
  }

  /** Ends it at once; what it has not answered fails. */
  drop(): void {
    this.#lose();
    this.connection.disconnect();
    destroyStream(this.connection);
  }
}

function connectionOf(client: AnyClient): RedisConnection {
  if (typeof client === 'string') return new SessionConnection(urlTransport(client));
  if (isTransport(client)) return new SessionConnection(client);
  if (isNodeRedis(client)) return new SessionConnection(nodeRedisTransport(client));
  const address = restAddressOf(client);
  if (address !== null) return new SessionConnection(restTransport(address));
  return duplicateOf(client as RedlockClient | RedlockClusterClient);
}

function duplicateOf(client: RedlockClient | RedlockClusterClient): RedisConnection {
  let connection: RedisConnection;
  try {
    connection = isClusterClient(client)
      ? client.duplicate([], clusterConnection(client.options))
      : client.duplicate(CONNECTION);
  } catch (cause) {
    throw configError('duplicate of a client failed.', 'configure', withoutArguments(cause));
  }
  const wrong = connectionShapeError(connection);
  if (wrong !== null) throw configError(`duplicate of a client ${wrong}: locks need ioredis clients.`);
  return connection;
}
