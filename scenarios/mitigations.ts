import { MOST_NODES } from '../core/index.js';
import { deviates, policyOf } from '../deviations/index.js';
import {
  spreadJitter,
  withAnswers,
  withClock,
  withDeadlines,
  withDeviations,
  withFencing,
  withLink,
  withLocks,
  withNodes,
  withOneMembership,
  withOwnTiming,
  withPersistence,
  withPolicy,
  withResource,
  withRestartDelay,
  withScripts,
  withSettle,
  withTtl,
} from './altered.js';
import { notAProfile, profileOf } from './checks.js';
import { parseDuration } from './duration.js';
import { InputError, show } from './input-error.js';
import { integer, oneOf, percent, wholeMs } from './mitigation-values.js';
import { meant } from './nearest.js';
import type { Schedule } from './schedule.js';
import { longestTtlUs } from './ttls.js';

const MS = 1000;
const MOST_EXTENSIONS = 1_000_000;

/** A way to prevent violations: something that an operator or an author of a client can change. */
export interface Mitigation {
  readonly name: string;
  /** Its values, as help shows them: `always|none`. */
  readonly values: string;
  /** What it does, in one line. */
  readonly description: string;
  /**
   * The same schedule with the mitigation in place. The argument is left as it is.
   *
   * @throws {@link InputError} if the mitigation has no such value.
   */
  readonly apply: (schedule: Schedule, value: string) => Schedule;
}

/** All mitigations, in the order in which help lists them. */
export const MITIGATIONS: readonly Mitigation[] = [
  {
    name: 'persistence',
    values: 'always|everysec|rdb|none',
    description: 'what survives a crash: all that was acknowledged, what is on disk, the last dump, or nothing',
    apply: (schedule, value) =>
      withPersistence(schedule, oneOf(value, { always: 'always', everysec: 'everysec', rdb: 'rdb', none: 'none' })),
  },
  {
    name: 'fsync',
    values: 'always|everysec|no',
    description: 'the same by the name of its Redis setting (appendfsync)',
    apply: (schedule, value) =>
      withPersistence(schedule, oneOf(value, { always: 'always', everysec: 'everysec', no: 'none' })),
  },
  {
    name: 'restart-delay',
    values: '<duration>|ttl',
    description:
      'a crashed node restarts after this long or later; ttl: 1 ms more than the longest TTL in the schedule',
    apply: (schedule, value) =>
      withRestartDelay(schedule, value === 'ttl' ? longestTtlUs(schedule) + MS : parseDuration(value)),
  },
  {
    name: 'wait',
    values: 'replica|disk|none',
    description: 'a vote counts once a replica has it (WAIT), once it is on disk (WAITAOF), or at once',
    apply: (schedule, value) =>
      withAnswers(schedule, oneOf(value, { replica: 'replicated', disk: 'durable', none: null })),
  },
  {
    name: 'nodes',
    values: '<n>',
    description: 'this many nodes; what befalls nodes that are no longer there is left out',
    apply: (schedule, value) => withNodes(schedule, integer(value, 1, MOST_NODES)),
  },
  {
    name: 'membership',
    values: 'all',
    description: 'every client has every node of the cluster, once and all along, and calls a resource by the same key',
    apply: (schedule, value) => oneOf(value, { all: withOneMembership })(schedule),
  },
  {
    name: 'ttl',
    values: '<duration>',
    description: 'the time to live of every lock and extension',
    apply: (schedule, value) => withTtl(schedule, wholeMs(value)),
  },
  {
    name: 'votes-wanted',
    values: '<n>|all|quorum',
    description: 'clients wait for this many votes while nodes can still answer',
    apply: (schedule, value) => {
      const named = value === 'all' || value === 'quorum';
      return withPolicy(schedule, {
        settings: { votesWanted: named ? value : integer(value, 1, MOST_NODES, 'all', 'quorum') },
      });
    },
  },
  {
    name: 'drift-allowance',
    values: '<percent>',
    description: 'clients keep back this share of the TTL for clock errors',
    apply: (schedule, value) =>
      withDeviations(withPolicy(schedule, { settings: { driftPpm: percent(value) } }), ['drift-added'], []),
  },
  {
    name: 'clock',
    values: 'boot|monotonic|wall',
    description: 'the clock that clients read: counting suspends, standing still in them, or one that can be set',
    apply: (schedule, value) =>
      withClock(schedule, oneOf(value, { boot: 'boot', monotonic: 'monotonic', wall: 'wall' })),
  },
  {
    name: 'deadline',
    values: 'absolute|relative',
    description: 'clients are told when their claim ends, or how long to count from the answers on',
    apply: (schedule, value) => withDeadlines(schedule, oneOf(value, { absolute: 'absolute', relative: 'relative' })),
  },
  {
    name: 'min-validity',
    values: '<duration>',
    description: 'an attempt with less validity left than this has failed',
    apply: (schedule, value) => withPolicy(schedule, { settings: { minValidityUs: parseDuration(value) } }),
  },
  {
    name: 'node-timeout',
    values: '<duration>|none',
    description: 'how long clients wait for the answer of one node',
    apply: (schedule, value) =>
      withPolicy(schedule, { settings: { nodeTimeoutUs: value === 'none' ? null : parseDuration(value) } }),
  },
  {
    name: 'sending',
    values: 'parallel|sequential',
    description: 'clients ask all nodes at once, or one after the other',
    apply: (schedule, value) =>
      withDeviations(schedule, ['asks-in-turn'], oneOf(value, { parallel: [], sequential: ['asks-in-turn'] })),
  },
  {
    name: 'settle',
    values: 'early|all',
    description: 'an attempt is decided as soon as it can be, or when every node has answered or timed out',
    apply: (schedule, value) => withSettle(schedule, oneOf(value, { early: false, all: true })),
  },
  {
    name: 'cleanup',
    values: 'all|granted|none',
    description: 'a failed attempt is released on all nodes, where a yes was heard, or nowhere',
    apply: (schedule, value) =>
      withDeviations(
        schedule,
        ['cleans-unless-refused', 'cleans-granted', 'cleans-nothing'],
        oneOf(value, { all: [], granted: ['cleans-granted'], none: ['cleans-nothing'] }),
      ),
  },
  {
    name: 'extend-from',
    values: 'start|reply',
    description: 'an extension counts from when it was sent, or from its answers',
    apply: (schedule, value) =>
      withDeviations(
        schedule,
        ['extension-counts-from-reply'],
        oneOf(value, { start: [], reply: ['extension-counts-from-reply'] }),
      ),
  },
  {
    name: 'max-extensions',
    values: '<n>|none',
    description: 'a lock is extended at most this often',
    apply: (schedule, value) =>
      withPolicy(schedule, {
        settings: { maxExtensions: value === 'none' ? null : integer(value, 0, MOST_EXTENSIONS, 'none') },
      }),
  },
  {
    name: 'link',
    values: 'fifo|reordering',
    description: 'each connection keeps the order of its messages, or clients use several (a pool, a reconnect)',
    apply: (schedule, value) => withLink(schedule, oneOf(value, { fifo: 'fifo', reordering: 'reordering' })),
  },
  {
    name: 'scripts',
    values: 'by-text|by-hash',
    description: 'scripts go whole to nodes, or by their hash, which a node with a new process does not know',
    apply: (schedule, value) => withScripts(schedule, oneOf(value, { 'by-text': 'by-text', 'by-hash': 'by-hash' })),
  },
  {
    name: 'guard',
    values: '<duration>',
    description: 'clients write only with at least this much validity left',
    apply: (schedule, value) => {
      const guardUs = parseDuration(value);
      return withLocks(schedule, (lock) => ({ ...lock, writes: lock.writes.map((write) => ({ ...write, guardUs })) }));
    },
  },
  {
    name: 'resource',
    values: 'fencing|cas|none',
    description: 'the resource refuses a lower fencing token, or a write whose token is no longer there, or nothing',
    apply: (schedule, value) => withResource(schedule, oneOf(value, { fencing: 'fencing', cas: 'cas', none: 'none' })),
  },
  {
    name: 'fencing',
    values: 'quorum|none',
    description: 'locks come with a fencing token, counted by a quorum',
    apply: (schedule, value) => withFencing(schedule, oneOf(value, { quorum: true, none: false })),
  },
  {
    name: 'rejoin',
    values: 'copy|copy-if-missing|at-once',
    description:
      'a restarted node copies the counters of others before it counts again, only if it has none, or begins at 0',
    apply: (schedule, value) =>
      withDeviations(
        schedule,
        ['counter-kept', 'counter-from-zero'],
        oneOf(value, { copy: [], 'copy-if-missing': ['counter-kept'], 'at-once': ['counter-from-zero'] }),
      ),
  },
  {
    name: 'lock-delay',
    values: '<duration>',
    description: 'keys outlive a claim by this, unless it is released: nobody gets a lost lock for so long',
    apply: (schedule, value) => withPolicy(schedule, { settings: { lockDelayMs: wholeMs(value) } }),
  },
  {
    name: 'own-key',
    values: 'vote|refusal',
    description: 'what a node says whose key is of the same token already, from an earlier sending',
    apply: (schedule, value) => {
      // A client that sets any key has a yes from its own one as well.
      const vote = deviates(policyOf(schedule.policy), 'sets-any') ? [] : ['own-key-grants'];
      return withDeviations(schedule, ['own-key-grants', 'own-key-renews'], oneOf(value, { vote, refusal: [] }));
    },
  },
  {
    name: 'token-check',
    values: 'on|off',
    description: 'a release deletes only the own token, or whatever is there',
    apply: (schedule, value) =>
      withDeviations(schedule, ['deletes-any'], oneOf(value, { on: [], off: ['deletes-any'] })),
  },
  {
    name: 'tokens',
    values: 'try|call',
    description: 'each try of a call has a token of its own, or all of them share one',
    apply: (schedule, value) =>
      withDeviations(schedule, ['token-per-call'], oneOf(value, { try: [], call: ['token-per-call'] })),
  },
  {
    name: 'jitter',
    values: '<duration>',
    description: 'pauses between attempts vary by up to this much either way, differently for each client and attempt',
    apply: (schedule, value) =>
      spreadJitter(withPolicy(schedule, { settings: { retryJitterUs: parseDuration(value) } })),
  },
  {
    name: 'policy',
    values: '<profile>',
    description: 'clients follow this profile as it is, without the deviations of the schedule',
    apply: (schedule, value) => {
      if (profileOf(value) === undefined) throw new InputError(notAProfile(value));
      const followed = { ...withOwnTiming(schedule, () => false), policy: { profile: value } };
      return followed.resource === undefined ? followed : withResource(followed, followed.resource);
    },
  },
];

/** Names of version 0.1, which go with the version after this one. */
const RENAMED: ReadonlyMap<string, string> = new Map([['drift', 'drift-allowance']]);

/**
 * The same schedule with a mitigation in place; valid if `schedule` is.
 *
 * @param text - `name=value`, as in `persistence=always`; see {@link MITIGATIONS}.
 * @throws {@link InputError} if it is not a mitigation or has no such value.
 */
export function mitigate(schedule: Schedule, text: string): Schedule {
  const [name = '', ...rest] = text.split('=');
  const wanted = RENAMED.get(name.trim()) ?? name.trim();
  const mitigation = MITIGATIONS.find((candidate) => candidate.name === wanted);
  if (mitigation === undefined) {
    const names = MITIGATIONS.map((candidate) => candidate.name);
    throw new InputError(
      `${show(name.trim())} is not a mitigation; ${meant(name.trim(), names, 'the mitigations are')}`,
    );
  }
  const value = rest.join('=').trim();
  if (value === '') {
    throw new InputError(`mitigation ${show(text)} has no value; write ${mitigation.name}=${mitigation.values}`);
  }
  try {
    return mitigation.apply(schedule, value);
  } catch (error) {
    throw error instanceof InputError ? new InputError(`mitigation ${show(text)}: ${error.message}`) : error;
  }
}
