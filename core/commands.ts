/**
 * Unique value that marks a key as one attempt's own. Compared for equality only, but for the order of two fencing
 * tokens with the same counter, where any order will do.
 */
export type Token = (number | string) & { readonly __token: true };

/**
 * What a lock asks a node to do: about its keys, of which several are one all-or-nothing command, or about the node's
 * fencing counter. `join-counter` lets a node that has lost its counter count again, from a value that others know.
 */
export type Operation = 'acquire' | 'extend' | 'release' | 'read-counter' | 'raise-counter' | 'join-counter';

/** One command, the same for every node it goes to. */
export interface Command {
  readonly operation: Operation;
  /** Attempt the token belongs to, from 0. */
  readonly attempt: number;
  /** Round of extension, or of reading and raising counters, from 0; 0 for the other operations. */
  readonly round: number;
  readonly token: Token;
  /** Time to live to set, ms; 0 for what sets no key. */
  readonly ttlMs: number;
  /** Value to raise the counter to, or to join with; else 0. */
  readonly counter: number;
  /** To join: what the node answered with when it was found without a counter. */
  readonly mark?: number | undefined;
}

/**
 * How a node answered: `yes` did it, `no` did not (held by another, nothing of ours there, or it has no counter), `error`
 * is no vote.
 */
export type Answer = 'yes' | 'no' | 'error';

/**
 * The Lua text of each operation, `ARGV[1]` the token.
 *
 * Those about keys have the resources as `KEYS` and the TTL in ms as `ARGV[2]`. Each answers 1 for yes and 0 for no.
 * Acquire and extend decide before they write, and so act on all keys or on none; a release deletes whichever keys are
 * still ours and says yes if there was one.
 *
 * Those about the counter have {@link COUNTER_KEYS} as `KEYS` and the value as `ARGV[2]`; to join, the mark is `ARGV[3]`. Each
 * answers with the counter as it is then, or, for no, with a negative number: -1, or the mark of a node without a counter.
 */
export type Scripts = Readonly<Record<Operation, string>>;

/**
 * The node's fencing counter, which never expires, and the mark that says since when there is none; both in one hash slot. No
 * resource may have these names.
 */
export const COUNTER_KEYS: readonly [string, string] = ['{lockstep:fencing}', '{lockstep:fencing}:joining'];

/*
 * A counter is stored with the life that it was counted in, `17 6e4b…`: the process that the node is, by its run_id, and the
 * replication history that it took its data from when it was made a master. Another life may have lost what an earlier
 * one acknowledged: after a restart from an older dump, or as a replica that has taken over. More than 15 digits would
 * not be exact.
 */
const LIFE = `
local life = string.match(redis.call('info', 'server'), 'run_id:(%x+)')
  .. string.match(redis.call('info', 'replication'), 'master_replid2:(%x+)')`;

/** The most that a counter may be. */
export const MOST_COUNTER: number = 10 ** 15 - 1;

const STORED = `
local counter, of = string.match(redis.call('get', KEYS[1]) or '', '^(%d+) (%x+)$')
if counter and #counter > 15 then counter = nil end`;

// The mark tells this absence of a counter from every other one, which another attempt to join may be about.
const OR_MARK = `
if not counter then
  local marked = redis.call('get', KEYS[2]) or ''
  local mark, of = string.match(marked, '^(%d+) (%x+)$')
  if of ~= life then
    local time = redis.call('time')
    mark = string.format('%d%06d', time[1], time[2])
    redis.call('set', KEYS[2], mark .. ' ' .. life)
  end
  return -tonumber(mark)
end`;

const READ = `${OR_MARK}
return tonumber(counter)`;

/** Never lowers: a value that arrives late must not undo a higher one that was acknowledged. */
export const RAISE_COUNTER: string = `${OR_MARK}
if tonumber(counter) >= tonumber(ARGV[2]) then return tonumber(counter) end
redis.call('set', KEYS[1], ARGV[2] .. ' ' .. life)
return tonumber(ARGV[2])`;

// What is joined with was read after the node had lost its counter, and it has not lost it again since.
const JOIN = `
if counter or redis.call('get', KEYS[2]) ~= ARGV[3] .. ' ' .. life then return -1 end
redis.call('set', KEYS[1], ARGV[2] .. ' ' .. life)
redis.call('del', KEYS[2])
return tonumber(ARGV[2])`;

/**
 * Gives a node a counter of at least `ARGV[1]`, whether it knows one or not: for an operator, after more nodes have lost
 * theirs than rejoin by themselves. {@link COUNTER_KEYS} are its `KEYS`. Answers with the counter.
 */
export const RECOVER_COUNTER: string = `${LIFE}${STORED}
if not counter or tonumber(counter) < tonumber(ARGV[1]) then counter = ARGV[1] end
redis.call('set', KEYS[1], counter .. ' ' .. life)
redis.call('del', KEYS[2])
return tonumber(counter)`.trim();

/** What counts in another life: nothing that an earlier one left. */
export const OWN_LIFE_COUNTS = `
if of ~= life then counter = nil end`;

/** The scripts about counters, of the Lua that says which counter counts and what a raise does. */
export function counterScripts(counts: string, raise: string): Omit<Scripts, 'acquire' | 'extend' | 'release'> {
  const known = LIFE + STORED + counts;
  return {
    'read-counter': (known + READ).trim(),
    'raise-counter': (known + raise).trim(),
    'join-counter': (known + JOIN).trim(),
  };
}
