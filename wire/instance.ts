import { defaultConfig } from './config.js';
import { type Keyspace, MemoryKeyspace } from './keyspace.js';
import type { Library } from './lua/library.js';
import { LuaMachine } from './lua/machine.js';
import { ScriptRandom } from './lua/random.js';
import type { ScriptHost } from './lua/redis-library.js';
import { fail, type Reply } from './reply.js';
import { Session, type Waiting } from './session.js';
import type { Limits } from './values.js';

/** Which server a node is, and its version: later ones have commands and options that earlier ones have not. */
export interface Edition {
  readonly flavour: 'redis' | 'valkey';
  /** `7.0.15`. */
  readonly version: string;
}

/** The edition that all behaviour was compared with. */
export const REDIS_7_0: Edition = { flavour: 'redis', version: '7.0.15' };

/** What a server needs from its world, and what it is. */
export interface Settings {
  /** The node's wall clock, whole µs. */
  readonly now: () => number;
  /** Chance, from 0 to 1, excluded. */
  readonly random: () => number;
  readonly edition?: Edition;
  /** How far its one replica is behind, µs; `null` for none, which is the default. */
  readonly replicaLagUs?: () => number | null;
  /** How many databases there are (default: 16). */
  readonly databases?: number;
  /** Has connections authenticate (default: none). */
  readonly password?: string;
  /** Keeps the keys of a database (default: in memory). */
  readonly keyspace?: (index: number, changed: (key: string) => void) => Keyspace;
}

/** A compiled script of `EVAL`, by its SHA-1. */
type ScriptTexts = Map<string, string>;

/** For all servers of a thread, by version: to make one takes a while, and nothing stays in it. */
const machines = new Map<string, LuaMachine>();

/** What the process of a server keeps: all that is not on one connection. */
export class Instance {
  readonly edition: Edition;
  readonly random: () => number;
  readonly replicaLagUs: () => number | null;
  readonly config: Map<string, string>;
  readonly scripts: ScriptTexts = new Map();
  readonly libraries: Map<string, Library> = new Map();
  readonly sessions: Map<Session, (bytes: string) => void> = new Map();
  readonly startedAt: number;
  /** The keyspaces by number; `SWAPDB` changes their places. */
  readonly databases: Keyspace[];
  private readonly clock: () => number;
  private frozenUs: number | null = null;
  private limitsRead: Limits | null = null;
  private readonly watchers = new Map<string, Set<Session>>();
  /** By database and key: those who wait, in the order of their coming. */
  private readonly waiters = new Map<string, Session[]>();
  private readonly ready = new Set<string>();
  /** Those who waited, and do not any more: what they sent meanwhile is to be carried out. */
  readonly released: Session[] = [];
  private readonly scriptRandom = new ScriptRandom();
  private nextId = 1;
  commandsProcessed = 0;
  /** Carries out a command for a script; set by the server. */
  run: (argv: readonly string[], session: Session) => Reply = () => fail('no server');
  /** The same for a script, with what scripts may not do refused; set by the server. */
  runInScript: (argv: readonly string[], session: Session, isReadOnly: boolean) => Reply = () => fail('no server');
  /** Sends what did not come as an answer. */
  push: (session: Session, reply: Reply) => void = () => {};

  constructor(settings: Settings) {
    this.edition = settings.edition ?? REDIS_7_0;
    this.clock = settings.now;
    this.random = settings.random;
    this.replicaLagUs = settings.replicaLagUs ?? (() => null);
    this.config = defaultConfig(settings);
    this.startedAt = this.nowUs;
    const make =
      settings.keyspace ??
      ((_: number, changed: (key: string) => void) => new MemoryKeyspace(() => this.nowMs, changed));
    this.databases = Array.from({ length: settings.databases ?? 16 }, (_, index) => {
      const keyspace: Keyspace = make(index, (key) => this.keyChanged(keyspace, key));
      return keyspace;
    });
  }

  /** The node's clock, µs: it does not move within a command. */
  get nowUs(): number {
    return this.frozenUs ?? this.clock();
  }

  get nowMs(): number {
    return Math.floor(this.nowUs / 1000);
  }

  /** Does something at one instant of the clock. */
  atOneInstant<T>(work: () => T): T {
    if (this.frozenUs !== null) return work();
    this.frozenUs = this.clock();
    try {
      return work();
    } finally {
      this.frozenUs = null;
    }
  }

  /** An identifier of a connection. */
  newId(): number {
    return this.nextId++;
  }

  keyspace(index: number): Keyspace {
    const found = this.databases[index];
    if (found === undefined) throw fail('DB index is out of range');
    return found;
  }

  get limits(): Limits {
    this.limitsRead ??= {
      hashEntries: Number(this.config.get('hash-max-listpack-entries')),
      hashValue: Number(this.config.get('hash-max-listpack-value')),
      setIntegers: Number(this.config.get('set-max-intset-entries')),
      zsetEntries: Number(this.config.get('zset-max-listpack-entries')),
      zsetValue: Number(this.config.get('zset-max-listpack-value')),
    };
    return this.limitsRead;
  }

  configure(name: string, value: string): void {
    this.config.set(name, value);
    this.limitsRead = null;
  }

  /** Whether this edition has what came with these versions; an absent flavour has never had it. */
  has(since: { readonly redis?: string; readonly valkey?: string }): boolean {
    const version = since[this.edition.flavour];
    return version !== undefined && compareVersions(this.edition.version, version) >= 0;
  }

  // ——— scripts ———

  /** Runs scripts. Lua has to be loaded. */
  machine(): LuaMachine {
    const { version } = this.edition;
    const machine = machines.get(version) ?? new LuaMachine(version);
    machines.set(version, machine);
    return machine;
  }

  /** What a script's commands are carried out by: on a connection of its own, on its caller's database. */
  scriptHost(caller: Session, isReadOnly: boolean): ScriptHost {
    caller.ofScripts ??= new Session(caller.id, caller.address, true, caller.since);
    const session = caller.ofScripts;
    session.database = caller.database;
    return new HostOfScript(this, session, isReadOnly, this.scriptRandom);
  }

  // ——— watched keys ———

  watch(session: Session, database: number, key: string): void {
    const name = nameOf(database, key);
    const sessions = this.watchers.get(name) ?? new Set();
    this.watchers.set(name, sessions.add(session));
    session.watched.push({ database, key });
  }

  unwatch(session: Session): void {
    for (const { database, key } of session.watched) this.watchers.get(nameOf(database, key))?.delete(session);
    session.watched = [];
    session.isStale = false;
  }

  private keyChanged(keyspace: Keyspace, key: string): void {
    if (this.watchers.size === 0 && this.waiters.size === 0) return;
    const name = nameOf(this.databases.indexOf(keyspace), key);
    for (const session of this.watchers.get(name) ?? []) session.isStale = true;
    if (this.waiters.has(name)) this.ready.add(name);
  }

  /** Marks the keys of this database as changed for connections that watch them or wait for them. */
  databaseReplaced(database: number, keys: Iterable<string>): void {
    for (const key of keys) {
      const name = nameOf(database, key);
      for (const session of this.watchers.get(name) ?? []) session.isStale = true;
      if (this.waiters.has(name)) this.ready.add(name);
    }
  }

  // ——— commands that wait ———

  wait(session: Session, waiting: Waiting): void {
    session.waiting = waiting;
    for (const key of waiting.keys) {
      const name = nameOf(waiting.database, key);
      const sessions = this.waiters.get(name) ?? [];
      if (!sessions.includes(session)) sessions.push(session);
      this.waiters.set(name, sessions);
    }
  }

  stopWaiting(session: Session): void {
    const { waiting } = session;
    session.waiting = null;
    if (waiting !== null) this.released.push(session);
    for (const key of waiting?.keys ?? []) {
      const name = nameOf(waiting?.database ?? 0, key);
      const left = (this.waiters.get(name) ?? []).filter((it) => it !== session);
      if (left.length === 0) this.waiters.delete(name);
      else this.waiters.set(name, left);
    }
  }

  /** A key has come that somebody waits for. */
  get hasReady(): boolean {
    return this.ready.size > 0;
  }

  /** Serves those who wait for keys that came since. */
  serveWaiting(): void {
    while (this.ready.size > 0) {
      const names = [...this.ready];
      this.ready.clear();
      for (const name of names) {
        const key = name.slice(name.indexOf(':') + 1);
        for (const session of [...(this.waiters.get(name) ?? [])]) {
          const { waiting } = session;
          if (waiting === null || !waiting.retry(key)) continue;
          this.stopWaiting(session);
        }
      }
    }
  }
}

/** Carries out what a script asks for. */
class HostOfScript implements ScriptHost {
  readonly random: ScriptRandom;
  private readonly instance: Instance;
  private readonly session: Session;
  private readonly isReadOnly: boolean;

  constructor(instance: Instance, session: Session, isReadOnly: boolean, random: ScriptRandom) {
    this.instance = instance;
    this.session = session;
    this.isReadOnly = isReadOnly;
    this.random = random;
  }

  call(argv: readonly string[]): Reply {
    return this.instance.runInScript(argv, this.session, this.isReadOnly);
  }

  get protocol(): 2 | 3 {
    return this.session.protocol;
  }

  set protocol(protocol: 2 | 3) {
    this.session.protocol = protocol;
  }

  get version(): string {
    return this.instance.edition.version;
  }
}

function nameOf(database: number, key: string): string {
  return `${database}:${key}`;
}

/** Negative if `a` is earlier than `b`. */
function compareVersions(a: string, b: string): number {
  const [left, right] = [a.split('.').map(Number), b.split('.').map(Number)];
  for (let i = 0; i < 3; i++) {
    const difference = (left[i] ?? 0) - (right[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
