import type { NodeSet } from './nodes.js';
import type { Policy } from './policy.js';

/** Unique value that marks a key as one attempt's own. Compared, never ordered or computed with. */
export type Token = (number | string) & { readonly __token: true };

/** What a lock asks a node to do. Several resources are one all-or-nothing command. */
export type Operation = 'acquire' | 'extend' | 'release';

/** One command, the same for every node it goes to. */
export interface Command {
  readonly operation: Operation;
  /** Attempt the token belongs to, from 0. */
  readonly attempt: number;
  /** Extension round, from 0; 0 for the other operations. */
  readonly round: number;
  readonly token: Token;
  /** Time to live to set, ms; 0 for a release. */
  readonly ttlMs: number;
}

/** How a node answered: `yes` did it, `no` did not (held by another, or nothing of ours there), `error` is no vote. */
export type Answer = 'yes' | 'no' | 'error';

/** A command and the nodes it is for, in index order. */
export interface Sending {
  readonly to: NodeSet;
  readonly command: Command;
}

/**
 * The Lua text of each operation, `KEYS` the resources, `ARGV[1]` the token, `ARGV[2]` the TTL in ms. Each answers 1
 * for yes and 0 for no. Acquire and extend decide before they write, and so act on all keys or on none; a release
 * deletes whichever keys are still ours and says yes if there was one.
 */
export interface Scripts {
  readonly acquire: string;
  readonly extend: string;
  readonly release: string;
}

const ACQUIRE = `
for _, key in ipairs(KEYS) do
  if redis.call('exists', key) == 1 then return 0 end
end
for _, key in ipairs(KEYS) do
  redis.call('set', key, ARGV[1], 'PX', ARGV[2])
end
return 1`;

const ACQUIRE_ANY = `
for _, key in ipairs(KEYS) do
  redis.call('set', key, ARGV[1], 'PX', ARGV[2])
end
return 1`;

const OWNS_ALL = `
for _, key in ipairs(KEYS) do
  if redis.call('get', key) ~= ARGV[1] then return 0 end
end`;

// Never shortens: a short extension that arrives late must not undercut a longer one that was acknowledged.
const LENGTHEN = `
for _, key in ipairs(KEYS) do
  if redis.call('pttl', key) < tonumber(ARGV[2]) then redis.call('pexpire', key, ARGV[2]) end
end
return 1`;

const EXTEND_OWN_OR_MISSING = `
for _, key in ipairs(KEYS) do
  local value = redis.call('get', key)
  if value and value ~= ARGV[1] then return 0 end
end
for _, key in ipairs(KEYS) do
  redis.call('set', key, ARGV[1], 'PX', ARGV[2])
end
return 1`;

const RELEASE = `
local mine = 0
for _, key in ipairs(KEYS) do
  if redis.call('get', key) == ARGV[1] then
    redis.call('del', key)
    mine = 1
  end
end
return mine`;

const RELEASE_ANY = `return redis.call('del', unpack(KEYS)) > 0 and 1 or 0`;

const EXTENSIONS: Record<Policy['extendCommand'], string> = {
  own: OWNS_ALL + LENGTHEN,
  'own-or-missing': EXTEND_OWN_OR_MISSING,
  any: ACQUIRE_ANY,
};

/** The scripts that carry out a policy. A single key that must be absent needs none: `SET key token NX PX ttl`. */
export function scriptsOf(policy: Policy): Scripts {
  return {
    acquire: (policy.onlyIfAbsent ? ACQUIRE : ACQUIRE_ANY).trim(),
    extend: EXTENSIONS[policy.extendCommand].trim(),
    release: (policy.releaseChecksToken ? RELEASE : RELEASE_ANY).trim(),
  };
}
