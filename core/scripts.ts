import { counterScripts, type Scripts } from './commands.js';
import type { FencingPolicy } from './settings.js';

/** A command about keys: its Lua text, and whether one key needs none, because a plain command of Redis will do. */
interface KeyScript {
  readonly lua: string;
  readonly plain: boolean;
}

/** Sets keys with a token and a TTL. */
export interface AcquireScript extends KeyScript {
  /** What a key may be, so that it can be set. */
  readonly onto: 'missing' | 'missing-or-own' | 'any';
  /** Whether a key that is the owner's already gets the TTL anew. */
  readonly renews: boolean;
}

/** Gives keys a new TTL: lengthens the owner's own, gives any that is present a new one, or sets keys anew. */
export interface ExtendScript extends KeyScript {
  readonly onto: 'own' | 'own-or-missing' | 'present' | 'any';
}

/** Deletes keys. */
export interface ReleaseScript extends KeyScript {
  readonly onto: 'own' | 'any';
  /** 1, or 2 for a GET whose answer is looked at before the deletion is sent. */
  readonly steps: 1 | 2;
}

/** What a lock has done to its keys; simulated nodes carry out the fields, real ones the text. */
export interface KeyScripts {
  readonly acquire: AcquireScript;
  readonly extend: ExtendScript;
  readonly release: ReleaseScript;
}

const ACQUIRE = `
for _, key in ipairs(KEYS) do
  if redis.call('exists', key) == 1 then return 0 end
end
for _, key in ipairs(KEYS) do
  redis.call('set', key, ARGV[1], 'PX', ARGV[2])
end
return 1`;

// Never shortens: a short extension that arrives late must not undercut a longer one that was acknowledged.
const EXTEND = `
for _, key in ipairs(KEYS) do
  if redis.call('get', key) ~= ARGV[1] then return 0 end
end
for _, key in ipairs(KEYS) do
  if redis.call('pttl', key) < tonumber(ARGV[2]) then redis.call('pexpire', key, ARGV[2]) end
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

/** Sets what is missing, lengthens and deletes what is the owner's own. */
export const SOUND_SCRIPTS: KeyScripts = {
  acquire: { onto: 'missing', renews: false, lua: ACQUIRE.trim(), plain: true },
  extend: { onto: 'own', lua: EXTEND.trim(), plain: false },
  release: { onto: 'own', steps: 1, lua: RELEASE.trim(), plain: false },
};

/**
 * The scripts that carry out a policy. A single key that must be absent needs none: `SET key token NX PX ttl`. Counters
 * that ride on the SET are bugs to plant in simulated nodes, and have no script.
 */
export function scriptsOf(policy: ScriptPolicy): Scripts {
  const { acquire, extend, release } = policy.rules.scripts;
  return { acquire: acquire.lua, extend: extend.lua, release: release.lua, ...counterScripts(policy.fencing) };
}

/** What of a policy scripts depend on. */
interface ScriptPolicy {
  readonly rules: { readonly scripts: KeyScripts };
  readonly fencing: FencingPolicy;
}
