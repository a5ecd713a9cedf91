/** The options of Redis that are of use to clients, as `CONFIG GET` answers them, with the values that Redis begins with. */
const DEFAULTS: Readonly<Record<string, string>> = {
  'acllog-max-len': '128',
  activedefrag: 'no',
  'active-expire-effort': '1',
  appendfsync: 'everysec',
  appendonly: 'no',
  'auto-aof-rewrite-min-size': '67108864',
  'auto-aof-rewrite-percentage': '100',
  bind: '* -::*',
  'busy-reply-threshold': '5000',
  'close-on-oom': 'no',
  'cluster-enabled': 'no',
  databases: '16',
  dbfilename: 'dump.rdb',
  dir: '/',
  'hash-max-listpack-entries': '512',
  'hash-max-listpack-value': '64',
  hz: '10',
  'io-threads': '1',
  'latency-tracking': 'yes',
  'lazyfree-lazy-eviction': 'no',
  'lazyfree-lazy-expire': 'no',
  'lazyfree-lazy-server-del': 'no',
  'lazyfree-lazy-user-del': 'no',
  'lazyfree-lazy-user-flush': 'no',
  'list-compress-depth': '0',
  'list-max-listpack-size': '-2',
  loglevel: 'notice',
  maxclients: '10000',
  maxmemory: '0',
  'maxmemory-policy': 'noeviction',
  'maxmemory-samples': '5',
  'min-replicas-max-lag': '10',
  'min-replicas-to-write': '0',
  'notify-keyspace-events': '',
  port: '6379',
  'proto-max-bulk-len': '536870912',
  'replica-read-only': 'yes',
  'repl-diskless-sync': 'yes',
  requirepass: '',
  save: '3600 1 300 100 60 10000',
  'set-max-intset-entries': '512',
  'slowlog-log-slower-than': '10000',
  'slowlog-max-len': '128',
  'stream-node-max-entries': '100',
  'tcp-keepalive': '300',
  timeout: '0',
  'zset-max-listpack-entries': '128',
  'zset-max-listpack-value': '64',
};

/** Older names of options. */
export const ALIASES: Readonly<Record<string, string>> = {
  'hash-max-ziplist-entries': 'hash-max-listpack-entries',
  'hash-max-ziplist-value': 'hash-max-listpack-value',
  'list-max-ziplist-size': 'list-max-listpack-size',
  'lua-time-limit': 'busy-reply-threshold',
  'min-slaves-max-lag': 'min-replicas-max-lag',
  'min-slaves-to-write': 'min-replicas-to-write',
  'slave-read-only': 'replica-read-only',
  'zset-max-ziplist-entries': 'zset-max-listpack-entries',
  'zset-max-ziplist-value': 'zset-max-listpack-value',
};

/** Options that are set when the server starts, and not later. */
export const IMMUTABLE: ReadonlySet<string> = new Set(['cluster-enabled', 'databases', 'io-threads']);

/** The options of a server that starts. */
export function defaultConfig(own: { readonly databases?: number; readonly password?: string }): Map<string, string> {
  const config = new Map(Object.entries(DEFAULTS));
  if (own.databases !== undefined) config.set('databases', String(own.databases));
  if (own.password !== undefined) config.set('requirepass', own.password);
  return config;
}
