/** What simulated nodes do without, by the reason: commands, options of `CONFIG`, sections of `INFO`. */
const LEFT_OUT: Readonly<Record<string, readonly string[]>> = {
  'DEBUG: how the process is made, for tests of Redis itself': ['debug', 'config key-load-delay'],
  'SORT: no lock or queue library sends it': ['sort', 'sort_ro'],
  'LCS: no lock or queue library sends it': ['lcs'],
  'MONITOR: it watches a server, and no library sends it': ['monitor'],
  'what is known about streams: no consumer asks for it': ['xinfo', 'xsetid'],
  'fields of bits: no lock or queue library uses them': ['bitcount', 'bitpos', 'bitop', 'bitfield', 'bitfield_ro'],
  'places on earth: no lock or queue library uses them': [
    'geoadd',
    'georadius',
    'georadius_ro',
    'geosearch',
    'geosearchstore',
  ],
  'HyperLogLog: no lock or queue library uses it': ['pfadd', 'pfcount', 'pfmerge', 'pfdebug', 'pfselftest'],
  'DUMP and RESTORE: nodes are not copied in this form': [
    ...['dump', 'restore', 'migrate', 'function dump', 'function restore', 'config sanitize-dump-payload'],
  ],
  'disks: they belong to the world, not to the server': [
    ...['save', 'bgsave', 'bgrewriteaof', 'config aof-use-rdb-preamble', 'config rdb-key-save-delay'],
  ],
  'replication: a node is alone': [
    ...['psync', 'sync', 'replconf', 'failover', 'config repl-ping-replica-period', 'config repl-backlog-size'],
    ...['config min-replicas-to-write', 'config slaveof', 'config replicaof', 'config repl-diskless-sync-delay'],
  ],
  clusters: ['cluster', 'readonly', 'readwrite', 'asking'],
  'more than one user': [
    ...['acl setuser', 'acl getuser', 'acl deluser', 'acl cat', 'acl genpass', 'acl log', 'acl load', 'acl save'],
    ...['acl dryrun'],
  ],
  'keyspace notifications: no lock or queue library listens to them': ['config notify-keyspace-events'],
  'client-side caching: it changes no lock': ['client tracking', 'client caching'],
  'statistics of INFO': ['info commandstats', 'info errorstats', 'info latencystats', 'info all', 'info everything'],
  'categories and flags of COMMAND': ['command getkeysandflags', 'command list aclcat', 'command docs'],
  'scripts that take long: they take no time on a simulated node, and one without an end is stopped': [
    ...['script kill', 'function kill', 'config lua-time-limit', 'config busy-reply-threshold'],
  ],
  'the end of a process: it belongs to the world': ['shutdown'],
  'limits of memory and of processes': [
    ...[
      'config maxmemory-clients',
      'config client-query-buffer-limit',
      'config oom-score-adj-values',
      'config daemonize',
    ],
    ...['config maxmemory', 'config oom-score-adj'],
  ],
};

const REASONS: ReadonlyMap<string, string> = new Map(
  Object.entries(LEFT_OUT).flatMap(([reason, names]) => names.map((name): [string, string] => [name, reason])),
);

/** Why a test does not apply that asked for what simulated nodes have not, or `null` if it should. */
export function reasonFor(unknown: Iterable<string>): string | null {
  for (const name of unknown) {
    const reason = REASONS.get(name);
    if (reason !== undefined) return reason;
  }
  return null;
}
