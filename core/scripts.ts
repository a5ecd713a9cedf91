import { counterScripts, OWN_LIFE_COUNTS, RAISE_COUNTER, type Scripts } from './commands.js';

/** Sets keys with a token and a TTL. */
interface AcquireScript {
  readonly lua: string;
  /** How a `SET` ends that does the same for one key; `null` where none does. */
  readonly plain: readonly 'NX'[] | null;
  /** What a key may be, so that it can be set. */
  readonly onto: 'missing' | 'missing-or-own' | 'any';
  /** Whether a key that is the owner's already gets the TTL again. */
  readonly renews: boolean;
}

/** A command about keys: its Lua text, and whether one key needs none, because a plain command of Redis will do. */
interface KeyScript {
  readonly lua: string;
  readonly plain: boolean;
}

/**
 * Gives keys a new TTL: lengthens the owner's own, and with `heals` sets missing ones besides; or gives any that is present a new
 * one, or sets keys again.
 */
interface ExtendScript extends KeyScript {
  readonly onto: 'own' | 'heals' | 'own-or-missing' | 'present' | 'any';
}

/** Deletes keys. */
interface ReleaseScript extends KeyScript {
  readonly onto: 'own' | 'any';
  /** The Lua of a question that needs a yes before the deletion is sent, as a round of its own; `null` for none. */
  readonly asks: string | null;
}

/** What a node makes of its fencing counter. */
export interface CounterScript {
  /**
   * When a node counts again whose process is not the one that counted: when a client has copied the counter of a quorum to
   * it (`copy`), or at once with what its memory or disk has left of its counter, where a node with none copies it
   * (`copy-if-missing`) or begins at 0 (`at-once`).
   */
  readonly rejoin: 'copy' | 'copy-if-missing' | 'at-once';
  /** The Lua for that. */
  readonly counts: string;
  /** What a raise does with a value: takes it if it is higher, or whatever it is. */
  readonly raises: 'higher' | 'any';
  /** The Lua for that. */
  readonly raise: string;
  /** Whether a node raises its counter by one when it grants. */
  readonly countsGrants: boolean;
}

/** What a lock has done to its keys and counters; simulated nodes carry out the fields, real ones the text. */
export interface NodeScripts {
  readonly counter: CounterScript;
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

// A missing key has a TTL of -2.
const HEAL = `
for _, key in ipairs(KEYS) do
  local value = redis.call('get', key)
  if value and value ~= ARGV[1] then return 0 end
end
for _, key in ipairs(KEYS) do
  if redis.call('pttl', key) < tonumber(ARGV[2]) then redis.call('set', key, ARGV[1], 'PX', ARGV[2]) end
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
export const SOUND_SCRIPTS: NodeScripts = {
  acquire: { onto: 'missing', renews: false, lua: ACQUIRE.trim(), plain: ['NX'] },
  extend: { onto: 'own', lua: EXTEND.trim(), plain: false },
  release: { onto: 'own', asks: null, lua: RELEASE.trim(), plain: false },
  counter: { rejoin: 'copy', counts: OWN_LIFE_COUNTS, raises: 'higher', raise: RAISE_COUNTER, countsGrants: false },
};

/** The same, and an extension sets missing keys besides: it wins back nodes that lost them, or were away. */
export const HEALING_SCRIPTS: NodeScripts = {
  ...SOUND_SCRIPTS,
  extend: { onto: 'heals', lua: HEAL.trim(), plain: false },
};

/**
 * The texts of scripts. A single key that must be absent needs none: `SET key token NX PX ttl`. Counters
 * that ride on the SET are bugs to plant in simulated nodes, and have no script.
 */
export function scriptsOf({ acquire, extend, release, counter }: NodeScripts): Scripts {
  const counters = counterScripts(counter.counts, counter.raise);
  return { acquire: acquire.lua, extend: extend.lua, release: release.lua, ...counters };
}
