import { at, integer, option, wide } from '../arguments.js';
import { type Call, type Command, container, type Handler, type Row } from '../command.js';
import { ALIASES, IMMUTABLE } from '../config.js';
import { fail, MapReply, NO_REPLY, OK, type Reply, SYNTAX, Verbatim } from '../reply.js';
import { matches, parseInteger } from '../text.js';

const time: Handler = (_, { instance }) => {
  const us = instance.nowUs;
  return [String(Math.floor(us / 1_000_000)), String(us % 1_000_000)];
};

// ——— INFO ———

type Section = (call: Call) => readonly string[];

const SECTIONS: Readonly<Record<string, Section>> = {
  server: ({ instance }) => {
    const { flavour, version } = instance.edition;
    const names =
      flavour === 'valkey'
        ? ['redis_version:7.2.4', 'server_name:valkey', `valkey_version:${version}`]
        : [`redis_version:${version}`];
    const upSeconds = Math.floor((instance.nowUs - instance.startedAt) / 1_000_000);
    return [
      ...names,
      'redis_mode:standalone',
      'arch_bits:64',
      `tcp_port:${instance.config.get('port')}`,
      `server_time_usec:${instance.nowUs}`,
      `uptime_in_seconds:${upSeconds}`,
      `uptime_in_days:${Math.floor(upSeconds / 86_400)}`,
      'hz:10',
      'configured_hz:10',
      'executable:',
      'config_file:',
      'io_threads_active:0',
    ];
  },
  clients: ({ instance }) => [
    `connected_clients:${instance.sessions.size}`,
    `maxclients:${instance.config.get('maxclients')}`,
    `blocked_clients:${[...instance.sessions.keys()].filter((it) => it.waiting !== null).length}`,
    'tracking_clients:0',
  ],
  memory: ({ instance }) => [
    `number_of_cached_scripts:${instance.scripts.size}`,
    `number_of_functions:${[...instance.libraries.values()].reduce((sum, it) => sum + it.functions.size, 0)}`,
    `number_of_libraries:${instance.libraries.size}`,
    'used_memory:1048576',
    'used_memory_human:1.00M',
    `maxmemory:${instance.config.get('maxmemory')}`,
    `maxmemory_policy:${instance.config.get('maxmemory-policy')}`,
    'mem_allocator:jemalloc-5.3.0',
  ],
  persistence: () => [
    'loading:0',
    'async_loading:0',
    'rdb_bgsave_in_progress:0',
    'aof_enabled:0',
    'aof_rewrite_in_progress:0',
  ],
  stats: ({ instance }) => [
    `total_commands_processed:${instance.commandsProcessed}`,
    'rejected_connections:0',
    'expired_keys:0',
    'evicted_keys:0',
  ],
  replication: () => ['role:master', 'connected_slaves:0', 'master_failover_state:no-failover', 'master_repl_offset:0'],
  cpu: () => ['used_cpu_sys:0.000000', 'used_cpu_user:0.000000'],
  modules: () => [],
  errorstats: () => [],
  cluster: () => ['cluster_enabled:0'],
  keyspace: ({ instance }) =>
    instance.databases.flatMap((keys, index) =>
      keys.size === 0 ? [] : [`db${index}:keys=${keys.size},expires=0,avg_ttl=0`],
    ),
};

const info: Handler = (argv, call) => {
  const wanted = argv.slice(1).map((word) => word.toLowerCase());
  const isAll = wanted.length === 0 || wanted.some((word) => ['all', 'default', 'everything'].includes(word));
  const parts = Object.entries(SECTIONS)
    .filter(([name]) => isAll || wanted.includes(name))
    .map(
      ([name, lines]) =>
        `# ${name[0]?.toUpperCase()}${name.slice(1)}\r\n${lines(call)
          .map((it) => `${it}\r\n`)
          .join('')}`,
    );
  return new Verbatim(parts.join('\r\n'));
};

// ——— CONFIG ———

const configGet: Handler = (argv, { instance }) => {
  const patterns = argv.slice(2).map((it) => it.toLowerCase());
  const pairs: [string, string][] = [];
  for (const [name, value] of instance.config) if (patterns.some((it) => matches(it, name))) pairs.push([name, value]);
  for (const [alias, name] of Object.entries(ALIASES))
    if (patterns.some((it) => matches(it, alias))) pairs.push([alias, instance.config.get(name) ?? '']);
  return new MapReply(pairs);
};

const UNITS: Readonly<Record<string, number>> = {
  '': 1,
  b: 1,
  k: 1000,
  kb: 1024,
  m: 1000 ** 2,
  mb: 1024 ** 2,
  g: 1000 ** 3,
  gb: 1024 ** 3,
};

/** Settings that are never negative. */
const IS_SIZE = /(?:-max-(?:listpack|ziplist)-(?:entries|value)|-max-intset-entries|-node-max-entries)$/;

/** The value as Redis keeps it, judged by what is there now; throws where it is none. */
function configValue(name: string, text: string, current: string): string {
  const bad = (why: string) => fail(`CONFIG SET failed (possibly related to argument '${name}') - ${why}`);
  if (IMMUTABLE.has(name)) throw bad("can't set immutable config");
  if (name === 'notify-keyspace-events' && text !== '') throw bad('a simulated node publishes no events on keys');
  if (name === 'maxmemory') {
    const [, digits, unit = ''] = /^(\d+)([a-z]*)$/i.exec(text) ?? [];
    const factor = UNITS[unit.toLowerCase()];
    if (digits === undefined || factor === undefined) throw bad('argument must be a memory value');
    return String(Number(digits) * factor);
  }
  if (current === 'yes' || current === 'no') {
    if (!/^(yes|no)$/i.test(text)) throw bad("argument must be 'yes' or 'no'");
    return text.toLowerCase();
  }
  const isNumber = parseInteger(current) !== null && name !== 'save';
  if (isNumber && parseInteger(text) === null) throw bad("argument couldn't be parsed into an integer");
  if (IS_SIZE.test(name) && text.startsWith('-'))
    throw bad('argument must be between 0 and 9223372036854775807 inclusive');
  return text;
}

const configSet: Handler = (argv, { instance }) => {
  if (argv.length % 2 === 1) throw SYNTAX;
  const values = new Map<string, string>();
  for (let i = 2; i < argv.length; i += 2) {
    const given = option(argv, i);
    const name = ALIASES[given] ?? given;
    const current = instance.config.get(name);
    if (current === undefined) throw fail(`Unknown option or number of arguments for CONFIG SET - '${at(argv, i)}'`);
    if (values.has(name))
      throw fail(`CONFIG SET failed (possibly related to argument '${at(argv, i)}') - duplicate parameter`);
    values.set(name, configValue(given, at(argv, i + 1), current));
  }
  for (const [name, value] of values) instance.configure(name, value);
  return OK;
};

const CONFIG: Command = container('config', 's', {
  get: [-3, 's', configGet],
  resetstat: [2, 's', () => OK],
  rewrite: [
    2,
    's',
    () => {
      throw fail('The server is running without a config file');
    },
  ],
  set: [-4, 's', configSet],
});

// ——— replication, as of a node with one replica at most ———

/** It waits until the replica, which is always as far behind, has what came before; without one, in vain. */
const wait: Handler = (argv, { instance, session, isNested }): Reply => {
  const wanted = integer(at(argv, 1));
  const timeout = wide(at(argv, 2), fail('timeout is not an integer or out of range'));
  if (timeout < 0n) throw fail('timeout is negative');
  if (wanted <= 0 || isNested) return 0;
  const lagUs = instance.replicaLagUs() ?? Number.POSITIVE_INFINITY;
  const forUs = timeout === 0n ? Number.POSITIVE_INFINITY : Number(timeout) * 1000;
  const until = instance.nowUs + (wanted === 1 ? Math.min(lagUs, forUs) : forUs);
  const giveUp = (): void => instance.push(session, lagUs <= forUs ? 1 : 0);
  instance.wait(session, { database: session.database, keys: [], until, retry: () => false, giveUp });
  return NO_REPLY;
};

const role: Handler = () => ['master', 0, []];

const lolwut: Handler = (_, { instance }) => new Verbatim(`Redis ver. ${instance.edition.version}\n`);

const SLOWLOG: Command = container('slowlog', '', {
  get: [-2, '', () => []],
  len: [2, '', () => 0],
  reset: [2, '', () => OK],
});

const LATENCY: Command = container('latency', 's', {
  latest: [2, 's', () => []],
  reset: [-2, 's', () => 0],
});

const whoami: Handler = (_, { session }) => session.user;

const ACL: Command = container('acl', 's', {
  list: [2, 's', () => ['user default on nopass ~* &* +@all']],
  users: [2, 's', () => ['default']],
  whoami: [2, 's', whoami],
});

const noReplica: Handler = (argv) => {
  if (option(argv, 1) === 'no' && option(argv, 2) === 'one') return OK;
  throw fail('a simulated node follows no master');
};

/** Commands on the server. */
export const ADMIN: Readonly<Record<string, Row>> = {
  info: [-1, '', info],
  lastsave: [1, '', (_, { instance }) => Math.floor(instance.startedAt / 1_000_000)],
  lolwut: [-1, 'r', lolwut],
  replicaof: [3, 's', noReplica],
  role: [1, 's', role],
  slaveof: [3, 's', noReplica],
  time: [1, '', time],
  wait: [3, 's', wait],
};

/** Commands on the server that have subcommands. */
export const ADMIN_CONTAINERS: readonly Command[] = [ACL, CONFIG, LATENCY, SLOWLOG];
