import type { SimNode } from '../../sim/index.js';
import { LuaMachine, sha1 } from './lua.js';
import { Failure, OK, type Reply, Status } from './reply.js';

/** What strings are called in the world: its keys and tokens are numbers. */
export interface Names {
  keyOf(key: string): number;
  tokenOf(value: string): number;
  valueOf(token: number): string;
}

/** A command at the node that carries it out. */
export interface Site {
  readonly node: SimNode;
  readonly now: SimNode['pausedUntil'];
  readonly names: Names;
  /** The token of the client that asks, or 0: who has deleted what. */
  readonly by: number;
}

type Handler = (args: readonly string[], site: Site, server: Server) => Reply;

const SYNTAX = new Failure('ERR syntax error');
const NOT_INTEGER = new Failure('ERR value is not an integer or out of range');
const NOSCRIPT = new Failure('NOSCRIPT No matching script. Please use EVAL.');

/** One machine for all servers of a thread: to make one takes milliseconds, and nothing stays in it. */
let machine: LuaMachine | null = null;

/**
 * What a Redis server does with commands, on the keys of a simulated node: strings, expiry and scripts, which is what
 * locks use. Its script cache is gone after a restart.
 */
export class Server {
  readonly machine: LuaMachine;
  private scripts: Map<string, string>;
  private life = 0;

  /** @param scripts - What is in its cache at first, by SHA-1. */
  constructor(scripts: ReadonlyMap<string, string> = new Map()) {
    this.scripts = new Map(scripts);
    machine ??= new LuaMachine();
    this.machine = machine;
  }

  /** The cache of scripts of the process that runs now. */
  scriptsOf(node: SimNode): Map<string, string> {
    if (this.life !== node.life) this.scripts = new Map();
    this.life = node.life;
    return this.scripts;
  }

  /** Carries out one command. */
  execute(args: readonly string[], site: Site): Reply {
    const [name = '', ...rest] = args;
    const command = COMMANDS[name.toLowerCase()];
    if (command === undefined) {
      return new Failure(
        `ERR unknown command '${name}', with args beginning with: ${rest.map((it) => `'${it}' `).join('')}`,
      );
    }
    const [handler, least] = command;
    if (rest.length < least) {
      return new Failure(`ERR wrong number of arguments for '${name.toLowerCase()}' command`);
    }
    return handler(rest, site, this);
  }
}

function integer(text: string | undefined): number | null {
  return text !== undefined && /^-?\d{1,15}$/.test(text) ? Number(text) : null;
}

function get({ node, now, names }: Site, key: string): string | null {
  const token = node.stored(names.keyOf(key), now);
  return token === 0 ? null : names.valueOf(token);
}

/** `EX`, `PX`, `EXAT`, `PXAT`: what of them is TTL in ms. */
const SET_TTLS: Readonly<Record<string, (n: number, site: Site) => number>> = {
  ex: (n) => n * 1000,
  px: (n) => n,
  exat: (n, site) => n * 1000 - nodeMs(site),
  pxat: (n, site) => n - nodeMs(site),
};

function nodeMs({ node, now }: Site): number {
  return Math.floor(node.clock.read(now) / 1000);
}

const set: Handler = ([key = '', value = '', ...options], site) => {
  let ttl: number | null | 'keep' = null;
  let [nx, xx, old] = [false, false, false];
  for (let i = 0; i < options.length; i++) {
    const option = (options[i] ?? '').toLowerCase();
    const ttlOf = SET_TTLS[option];
    if (option === 'nx') nx = true;
    else if (option === 'xx') xx = true;
    else if (option === 'get') old = true;
    else if (option === 'keepttl' && ttl === null) ttl = 'keep';
    else if (ttlOf !== undefined && ttl === null) {
      const n = integer(options[++i]);
      if (n === null) return options[i] === undefined ? SYNTAX : NOT_INTEGER;
      if (n <= 0) return new Failure("ERR invalid expire time in 'set' command");
      ttl = ttlOf(n, site);
    } else return SYNTAX;
  }
  if (nx && xx) return SYNTAX;
  const before = get(site, key);
  const done = nx ? before === null : !xx || before !== null;
  if (done) site.node.store(site.names.keyOf(key), site.names.tokenOf(value), ttl, site.now);
  if (old) return before;
  return done ? OK : null;
};

function remove(keys: readonly string[], { node, now, names, by }: Site): number {
  return keys.filter((key) => node.remove(names.keyOf(key), by, now)).length;
}

function expire(unitMs: number): Handler {
  return ([key = '', text, ...options], site) => {
    const n = integer(text);
    if (n === null) return NOT_INTEGER;
    const { node, now, names } = site;
    const index = names.keyOf(key);
    const left = node.ttlMs(index, now);
    if (left === -2) return 0;
    const ttl = n * unitMs;
    const has = (option: string): boolean => options.some((it) => it.toLowerCase() === option);
    if (has('nx') && left !== -1) return 0;
    if (has('xx') && left === -1) return 0;
    if (has('gt') && (left === -1 || ttl <= left)) return 0;
    if (has('lt') && left !== -1 && ttl >= left) return 0;
    if (ttl <= 0) return remove([key], site);
    node.expireIn(index, ttl, now);
    return 1;
  };
}

function ttl(unitMs: number): Handler {
  return ([key = ''], { node, now, names }) => {
    const left = node.ttlMs(names.keyOf(key), now);
    return left < 0 ? left : unitMs === 1 ? left : Math.floor((left + 500) / unitMs);
  };
}

function setWithTtl(unit: 'ex' | 'px'): Handler {
  return ([key = '', n = '', value = ''], site, server) => server.execute(['set', key, value, unit, n], site);
}

const incrementBy: Handler = ([key = '', by], site) => {
  const before = get(site, key);
  const [from, n] = [before === null ? 0 : integer(before), integer(by)];
  if (from === null || n === null) return NOT_INTEGER;
  site.node.store(site.names.keyOf(key), site.names.tokenOf(String(from + n)), 'keep', site.now);
  return from + n;
};

function run(text: string, [count, ...rest]: readonly string[], site: Site, server: Server): Reply {
  const keys = integer(count);
  if (keys === null) return NOT_INTEGER;
  if (keys < 0) return new Failure("ERR Number of keys can't be negative");
  if (keys > rest.length) return new Failure("ERR Number of keys can't be greater than number of args");
  const call = (args: readonly string[]): Reply => {
    if (IN_SCRIPTS.test(args[0] ?? '')) return server.execute(args, site);
    return new Failure('ERR This Redis command is not allowed from script');
  };
  return server.machine.run(text, rest.slice(0, keys), rest.slice(keys), call);
}

const IN_SCRIPTS = /^(?!eval|evalsha|script|multi|exec|client$)/i;

const evaluate: Handler = ([text = '', ...rest], site, server) => {
  const wrong = server.machine.compile(text);
  if (wrong !== null) return wrong;
  server.scriptsOf(site.node).set(sha1(text), text);
  return run(text, rest, site, server);
};

const evaluateSha: Handler = ([sha = '', ...rest], site, server) => {
  const text = server.scriptsOf(site.node).get(sha.toLowerCase());
  return text === undefined ? NOSCRIPT : run(text, rest, site, server);
};

const script: Handler = ([sub = '', ...args], { node }, server) => {
  const scripts = server.scriptsOf(node);
  switch (sub.toLowerCase()) {
    case 'load': {
      const [text = ''] = args;
      const wrong = server.machine.compile(text);
      if (wrong !== null) return wrong;
      scripts.set(sha1(text), text);
      return sha1(text);
    }
    case 'exists':
      return args.map((sha) => (scripts.has(sha.toLowerCase()) ? 1 : 0));
    case 'flush':
      scripts.clear();
      return OK;
    default:
      return new Failure(`ERR unknown subcommand '${sub}'. Try SCRIPT HELP.`);
  }
};

/** By name: what does it, and how many arguments it needs. */
const COMMANDS: Readonly<Record<string, readonly [Handler, number]>> = {
  ping: [([text]) => text ?? new Status('PONG'), 0],
  echo: [([text = '']) => text, 1],
  select: [([db]) => (db === '0' ? OK : new Failure('ERR DB index is out of range')), 1],
  time: [
    (_, { node, now }) => {
      const us = node.clock.read(now);
      return [String(Math.floor(us / 1_000_000)), String(us % 1_000_000)];
    },
    0,
  ],
  client: [() => OK, 1],
  info: [() => '# Server\r\nredis_version:7.0.15\r\n', 0],
  set: [set, 2],
  setnx: [
    ([key = '', value = ''], site, server) => (server.execute(['set', key, value, 'nx'], site) === OK ? 1 : 0),
    2,
  ],
  setex: [setWithTtl('ex'), 3],
  psetex: [setWithTtl('px'), 3],
  get: [([key = ''], site) => get(site, key), 1],
  getdel: [
    ([key = ''], site) => {
      const value = get(site, key);
      remove([key], site);
      return value;
    },
    1,
  ],
  mget: [(keys, site) => keys.map((key) => get(site, key)), 1],
  del: [remove, 1],
  unlink: [remove, 1],
  exists: [(keys, site) => keys.filter((key) => get(site, key) !== null).length, 1],
  expire: [expire(1000), 2],
  pexpire: [expire(1), 2],
  persist: [
    ([key = ''], { node, now, names }) => {
      const index = names.keyOf(key);
      if (node.ttlMs(index, now) < 0) return 0;
      node.expireIn(index, null, now);
      return 1;
    },
    1,
  ],
  ttl: [ttl(1000), 1],
  pttl: [ttl(1), 1],
  incr: [([key = ''], site, server) => incrementBy([key, '1'], site, server), 1],
  incrby: [incrementBy, 2],
  eval: [evaluate, 2],
  evalsha: [evaluateSha, 2],
  script: [script, 1],
};

/** The names of all commands that a simulated node knows. */
export const COMMAND_NAMES: readonly string[] = Object.keys(COMMANDS);
