import type { NodeScripts, Settings } from '../core/index.js';

/**
 * What a client's process does around its lock, and no rule of the lock: which nodes and clock it goes by, where its tokens
 * come from, and when it stops to believe.
 */
export interface Habits {
  /**
   * Which nodes a client counts: all that it is given, or those that it has a connection to as it asks for the lock
   * (`connected`: redlock-cpp, redlock-py before its pull request 6).
   */
  readonly nodesFrom: 'configured' | 'connected';
  /**
   * The clock of its process that a client reads. `boot` never jumps and counts the time in which the machine was
   * suspended (CLOCK_BOOTTIME; or monotonic time checked against the time since boot, as this project's client does).
   * `monotonic` stands still in that time (CLOCK_MONOTONIC on Linux: redsync, pottery, aioredlock, rslock). `wall` can
   * be set (`Date.now`, `microtime`, `Time.now`: node-redlock, redlock-php, antirez/redlock-rb).
   */
  readonly clock: 'boot' | 'monotonic' | 'wall';
  /**
   * Where tokens come from: `random` ones are unique, the `clock`'s are the millisecond, those of `clock-us` the
   * microsecond (`uniqid` of redlock-php).
   */
  readonly tokenFrom: 'random' | 'clock' | 'clock-us';
  /** When the owner stops believing: as it calls release, or only when release has returned. */
  readonly beliefEnds: 'at-release' | 'after-release';
}

/**
 * Every choice on which Redlock clients differ, as one plain value, as schedules of form 1 write it: settings (where a
 * negative drift allowance adds validity), the habits of a process, and a field for each rule that clients have in another
 * form. A *profile* is a named policy with its sources, a *planted bug* is a policy with one line changed. The defaults
 * ({@link REFERENCE}) are the redis.io algorithm with the rules that published analyses showed to be necessary.
 */
export interface Policy extends Omit<Settings, 'fencing'>, Habits {
  /** Name of the profile this value started from. */
  readonly profile: string;
  /** Votes that make a lock. `majority` is ⌊N/2⌋+1 (redis.io); a number is used as it is, sound or not. */
  readonly quorum: 'majority' | 'half' | 'float-majority' | number;
  /** `parallel` sends to all nodes at once (redis.io: "multiplexing"), `sequential` to one after the other. */
  readonly sending: 'parallel' | 'sequential';
  /**
   * When an attempt, or a round of extension, is decided. `early`: at the votes wanted, or as soon as a quorum is
   * impossible. `early-yes` only at the votes wanted (pottery), `early-no` only when it is impossible (php-lock 3), each
   * otherwise as `all`: when every node has answered or timed out. `quorum-only`: when one side reaches the quorum, so
   * that a tie never ends (node-redlock 5).
   */
  readonly settle: 'early' | 'early-yes' | 'early-no' | 'all' | 'quorum-only';
  /**
   * What an error or a time-out of one node is: `no-vote`; a `vote` (whoever takes the absence of an error for success);
   * or the end of the acquisition, with nothing released: at once (`abort`: an exception that nobody catches,
   * redlock-php), or where it was won all the same (`forfeit`: raised after the count, redlock-py).
   */
  readonly onNodeError: 'no-vote' | 'vote' | 'abort' | 'forfeit';
  /** What a granted SET is read as: `yes`, or an `error` (a rewrite of redsync tests for the wrong kind of nil). */
  readonly grantReadAs: 'yes' | 'error';
  /** Time stamps are cut to whole multiples of this, µs, from 1: 1 000 in redlock-py and node-redlock, a second in redlock-cpp. */
  readonly stampUs: number;
  /**
   * What the owner is told. `absolute`: the instant T1 + TTL − D on that clock (redsync, node-redlock). `relative`: a
   * validity of TTL − (T2 − T1) − D, which it counts itself, with a timer that is not cut (redlock-rb, -py, -php).
   * `whole-ttl`: the time of the grant, from which it counts the TTL (redlock-universal).
   */
  readonly deadline: 'absolute' | 'relative' | 'whole-ttl';
  /** How long after the last answer the owner starts to count a `relative` validity, µs; the caller's habit. */
  readonly deadlineLagUs: number;
  /** Where validity starts counting: at the start of the attempt (T1), of the first attempt, or at the last reply. */
  readonly validityFrom: 'attempt' | 'call' | 'reply';
  /** Rounds the allowance up to whole milliseconds, which absorbs what truncated time stamps can lose. */
  readonly driftWholeMs: boolean;
  /**
   * What validity must be once the quorum is in: `none` is no check at all (node-redlock 5); `unsigned` takes less than
   * nothing for very much (redlock-rs, whose difference wraps around in a release build).
   */
  readonly validityCheck: 'positive' | 'non-negative' | 'none' | 'unsigned';
  /**
   * How long one token lives: reuse over attempts lets a late release delete the key of a later attempt, and reuse over
   * calls (`instance`: one token as long as the process lives, redis-semaphore) that of a later lock.
   */
  readonly tokenScope: 'attempt' | 'call' | 'instance';
  /** Sets the key only if it is absent (`NX`). */
  readonly onlyIfAbsent: boolean;
  /**
   * How long a key lives: its `ttl`; a `thousandfold` of it or a `thousandth` (`EX` for `PX`, or seconds for
   * milliseconds), or a thousandfold more with each retry (`thousandfold-per-retry`: a unit that is converted in the
   * loop, Redisson); or for ever (`none`: SETNX, with the expiry left out or lost in a second command).
   */
  readonly keyExpiry: 'ttl' | 'thousandfold' | 'thousandfold-per-retry' | 'thousandth' | 'none';
  /**
   * Finding its own token counts as a yes, and lengthens nothing: heals a SET whose answer was lost and that was sent
   * again. Sound where validity counts from the first sending of the token, and no node is on the list twice.
   */
  readonly ownKeyGrants: boolean;
  /** Where its own token grants, it gets the whole TTL anew (aioredlock): then validity may count from that attempt. */
  readonly ownKeyRenews: boolean;
  /** Whether the pauses are made; else tries are burnt as fast as the nodes answer (glasslion/redlock issues 13, 18). */
  readonly retryPauses: boolean;
  /** Whether the last attempt is followed by a pause as well, before the caller hears that it failed (redlock-py). */
  readonly pausesAfterLast: boolean;
  /** Which nodes a failed attempt is released on: `not-refused` leaves out those that are known to have said no. */
  readonly cleanup: 'all' | 'not-refused' | 'granted' | 'none';
  /**
   * Whether every failed attempt is cleaned up, only the last (node-redlock 5), or all but the last, after which the
   * context of the caller is over (a rewrite of redsync).
   */
  readonly cleanupAfter: 'each-attempt' | 'last-attempt' | 'all-but-last';
  /** Whether the pause after a failed attempt, or the news of the failure, waits for the answers to its clean-up. */
  readonly cleanupAwaited: boolean;
  /**
   * What ends an acquisition at once, with nothing released and no further attempt: nothing; a quorum that came too late
   * (`too-slow`, rslock); or an error or a time-out where no node said yes (`errors`, redsync of 2020).
   */
  readonly givesUpOn: 'nothing' | 'too-slow' | 'errors';
  /** Releases once more where a grant comes after its release: a request in flight may have been overtaken by it. */
  readonly releasesLateGrants: boolean;
  /** Deletes only the own token (Lua), or whatever is there (plain `DEL`). */
  readonly releaseChecksToken: boolean;
  /** The check and the deletion are one script, or a GET and then a DEL, with time for others in between. */
  readonly releaseSteps: 'one' | 'get-then-del';
  /**
   * Whether releases and clean-ups go to all nodes at once, or to one after the other; `until-error` stops at the first
   * that fails (redlock-cs, Redis::DistLock).
   */
  readonly releaseSending: 'parallel' | 'sequential' | 'until-error';
  /**
   * What makes a release a success: being sent (`best-effort`), or a quorum that had the key and `deleted` it
   * (node-redlock), or that is `freed` of it, whoever deleted it (aioredlock).
   */
  readonly releaseRule: 'best-effort' | 'deleted' | 'freed';
  /** Which nodes a release goes to. */
  readonly releaseTo: 'all' | 'granted';
  /**
   * What an extension does on a node: only lengthen the own key, also re-create a missing one, give whatever key is
   * there a new expiry (`PEXPIRE` without a look at the token), or set any key.
   */
  readonly extendCommand: 'own' | 'own-or-missing' | 'present' | 'any';
  /** What an answer to an extension is read as: `yes` takes each but an error for one (redsync of 2020, issue 61). */
  readonly extendReadAs: 'answer' | 'yes';
  /** Votes an extension needs, relative to the quorum: 0 is sound, -1 is one too few. */
  readonly extendQuorumOffset: number;
  /** Where the new validity starts counting: when the round was sent, or when its quorum answered. */
  readonly extendFrom: 'start' | 'reply';
  /** Whether what is left of the new validity is looked at, as after an acquisition (not in redsync before issue 71). */
  readonly extensionCheck: 'validity' | 'none';
  /** Refuses an extension whose quorum answered after the old deadline (else another holder may lie between). */
  readonly extendOnlyInTime: boolean;
  /** Refuses to begin an extension after the deadline; {@link extendOnlyInTime} does so too. */
  readonly extendStartsInTime: boolean;
  /**
   * What a failed extension does to the lock: nothing (`keep`), release its keys while the owner goes on by its deadline
   * (`release`: node-redlock 4, rslock), or release them and tell the owner (`give-up`: redis-semaphore).
   */
  readonly extendOnFail: 'keep' | 'release' | 'give-up';
  /** What is done where less than that is left from the start: an extension `at-once`, or `never` one (rslock). */
  readonly autoExtendLate: 'at-once' | 'never';
  /**
   * How the owner hears that its claim is over: by a `local-timer`; `after-reply`, when an extension fails after it
   * (node-redlock 5); or not at all (`none`: redlock-php, redsync, Redisson, whose watchdog dies silently).
   */
  readonly lossSignal: 'local-timer' | 'after-reply' | 'none';
  /**
   * The fencing token that a lock comes with. `quorum`: once the votes are in, reads the counters of a quorum, raises a
   * quorum to one more, and takes the lock only then; the token is that number and the attempt's own token.
   *
   * The others are known to be wrong. `counter-alone` leaves the attempt's token out, `plain-write` sets counters
   * whatever they are, `piggybacked-read` takes the counters that the votes came with for read. `max`, `sum` and `min`
   * make one number of counters that each node increments when it grants.
   */
  readonly fencing: 'none' | 'quorum' | 'counter-alone' | 'plain-write' | 'piggybacked-read' | 'max' | 'sum' | 'min';
  /**
   * When a node counts again whose process is not the one that counted: when a client has copied the counter of a quorum to
   * it (`copy`), or, known to be wrong, at once with what its memory or disk has left of its counter, where a node with
   * none copies it (`copy-if-missing`) or begins at 0 (`at-once`).
   */
  readonly rejoin: NodeScripts['counter']['rejoin'];
}

/** The sound policy: what `lockstep`'s own lock runs with its default settings. */
export const REFERENCE: Policy = Object.freeze<Policy>({
  profile: 'reference',
  quorum: 'majority',
  votesWanted: 'quorum',
  nodesFrom: 'configured',
  sending: 'parallel',
  settle: 'early',
  nodeTimeoutUs: 50_000,
  onNodeError: 'no-vote',
  grantReadAs: 'yes',
  clock: 'boot',
  stampUs: 1,
  deadline: 'absolute',
  deadlineLagUs: 0,
  validityFrom: 'attempt',
  driftPpm: 10_000,
  driftUs: 2_000,
  driftWholeMs: true,
  validityCheck: 'positive',
  minValidityUs: 0,
  tokenFrom: 'random',
  tokenScope: 'attempt',
  onlyIfAbsent: true,
  keyExpiry: 'ttl',
  ownKeyGrants: false,
  ownKeyRenews: false,
  tries: 11,
  acquireTimeoutUs: null,
  retryDelayUs: 200_000,
  retryJitterUs: 100_000,
  retryPauses: true,
  pausesAfterLast: false,
  cleanup: 'all',
  cleanupAfter: 'each-attempt',
  cleanupAwaited: false,
  givesUpOn: 'nothing',
  releasesLateGrants: true,
  releaseChecksToken: true,
  releaseSteps: 'one',
  releaseSending: 'parallel',
  releaseRule: 'best-effort',
  releaseTries: 1,
  beliefEnds: 'at-release',
  releaseTo: 'all',
  extendCommand: 'own',
  extendReadAs: 'answer',
  extendQuorumOffset: 0,
  extendFrom: 'start',
  extensionCheck: 'validity',
  extendOnlyInTime: true,
  extendStartsInTime: false,
  extendOnFail: 'keep',
  maxExtensions: 10,
  autoExtendAtUs: null,
  autoExtendAtPpm: null,
  autoExtendLate: 'at-once',
  autoExtendSpacingUs: 100_000,
  lossSignal: 'local-timer',
  lockDelayMs: 0,
  fencing: 'none',
  rejoin: 'copy',
});
