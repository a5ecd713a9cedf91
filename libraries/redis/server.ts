import type { SimNode } from '../../sim/index.js';
import {
  COMMANDS,
  type Connection,
  type Edition,
  Failure,
  Server as RedisServer,
  type Reply,
  Session,
  sha1,
} from '../../wire/index.js';
import { toBytes } from './bytes.js';
import { NodeKeyspace, type Site } from './node-keyspace.js';

/** What may not be in a script, and asks nothing of the connection that it comes over. */
const WITHOUT_CONNECTION: ReadonlySet<string> = new Set([
  'client',
  'config',
  'eval',
  'eval_ro',
  'evalsha',
  'evalsha_ro',
  'role',
  'script',
  'wait',
]);

/** Whether a node carries it out for those who are handed a connection: all but what a connection keeps or waits for. */
function isSupported(name: string): boolean {
  return WITHOUT_CONNECTION.has(name) || !(COMMANDS.get(name)?.flags.includes('s') ?? true);
}

/** The names of all commands that a simulated node knows. */
export const COMMAND_NAMES: readonly string[] = [...COMMANDS.keys()].filter(isSupported);

/** The names of those that it carries out only for who opens a connection: `WATCH`, `SUBSCRIBE`, and others. */
export const CONNECTION_COMMAND_NAMES: readonly string[] = [...COMMANDS.keys()].filter((name) => !isSupported(name));

/** A version that knows what clients say of themselves as they connect (`CLIENT SETINFO`, since 7.2). */
const EDITION: Edition = { flavour: 'redis', version: '7.4.7' };

const NOBODY = 0;
const ADDRESS = '127.0.0.1:0';

/**
 * The Redis server of a simulated node: `wire`'s, on the keys of that node. Its script cache is gone after a restart.
 * Lua has to be loaded.
 */
export class Server {
  private readonly keyspace = new NodeKeyspace();
  private server: RedisServer;
  private life = 0;
  private drawn = 0;
  /** What is carried out comes over a connection, which keeps what commands leave on it. */
  private isConnected = false;

  private readonly edition: Edition;

  /** @param scripts - What is in its cache at first. */
  constructor(scripts: ReadonlyMap<string, string> = new Map(), edition: Edition = EDITION) {
    this.edition = edition;
    this.server = this.start();
    for (const text of scripts.values()) this.server.instance.scripts.set(sha1(toBytes(text)), toBytes(text));
  }

  private start(): RedisServer {
    const server = new RedisServer({
      now: () => this.nowUs,
      // Always the same: what is left to chance are answers that no lock asks for.
      random: () => (this.drawn++ % 1009) / 1009,
      databases: 1,
      edition: this.edition,
      replicaLagUs: () => this.keyspace.site?.node.replicaLagUs ?? null,
      keyspace: (_, changed) => {
        this.keyspace.listener = changed;
        return this.keyspace;
      },
    });
    server.allows = (name) => this.isConnected || isSupported(name);
    return server;
  }

  /** Opens a connection, to the node at this site. */
  connect(site: Site, write: (bytes: string) => void, close: () => void): Connection {
    this.keyspace.site = site;
    return this.processOf(site.node).connect(write, close, ADDRESS);
  }

  /** Takes requests of a connection. */
  receive(connection: Connection, requests: readonly (readonly string[])[], site: Site): void {
    this.keyspace.site = site;
    this.isConnected = true;
    connection.take(requests);
    this.isConnected = false;
  }

  /** Tells those on a connection's server who have waited for too long. */
  expireWaiting(site: Site): void {
    this.keyspace.site = site;
    this.isConnected = true;
    this.processOf(site.node).expireWaiting();
    this.isConnected = false;
  }

  private get nowUs(): number {
    const { site } = this.keyspace;
    return site === null ? 0 : site.node.clock.read(site.now);
  }

  private processOf(node: SimNode): RedisServer {
    if (this.life !== node.life) this.server = this.start();
    this.life = node.life;
    return this.server;
  }

  /** Carries out one command. */
  execute(argv: readonly string[], site: Site): Reply {
    this.keyspace.site = site;
    const session = new Session(1, ADDRESS, true, NOBODY);
    return this.processOf(site.node).execute(argv.map(toBytes), session);
  }
}

/** What a node answers that refuses a command: as its memory is full, as it cannot write to its disk, or as it is loading. */
export function refusalOf([name = '']: readonly string[]): Failure {
  const flags = COMMANDS.get(name.toLowerCase())?.flags ?? '';
  if (flags.includes('m')) return new Failure("OOM command not allowed when used memory > 'maxmemory'.");
  if (/[wp]/.test(flags))
    return new Failure(
      'MISCONF Redis is configured to save RDB snapshots, but it is currently unable to persist to disk. Commands that may modify the data set are disabled.',
    );
  return new Failure('LOADING Redis is loading the dataset in memory');
}
