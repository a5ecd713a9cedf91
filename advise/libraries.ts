import type { Policy } from '../deviations/index.js';

/*
 * What the users of a client can set, in that client's own words, and no more than it has. Where a value was read is with
 * its profile in `deviations/profiles/`; options that this list names beside them were read in the same files.
 */

/** How a client takes its drift allowance. */
interface DriftOption {
  /** What it adds to factor · TTL, µs. */
  readonly constantUs: number;
  /** What it makes of factor · TTL: cuts it to whole ms, or leaves it. */
  readonly whole: 'cut' | 'exact';
}

/** One client. */
export interface Library {
  readonly title: string;
  /** Where its settings go, as a heading. */
  readonly file: string;
  /** `null`: its allowance cannot be set. */
  readonly drift: DriftOption | null;
  /** The lines that acquire a lock with a TTL, with a drift factor where one is given, and with tokens where they are wanted. */
  readonly acquire: (ttlMs: number, factor: string | null, fencing?: boolean) => readonly string[];
  /** Lines before a write that let it go ahead only with so much left. */
  readonly guard: (guardMs: number, ttlMs: number) => readonly string[];
  /** Whether it has fencing tokens. */
  readonly fencing: boolean;
  /** What everybody should know who uses it. */
  readonly caution?: string;
}

const MS_AND_2: DriftOption = { constantUs: 2_000, whole: 'cut' };

const seconds = (ms: number): string => `${ms / 1000}`;
const factorLine = (line: string, factor: string | null): string[] => (factor === null ? [] : [line]);

/** The clients of node-redlock's family, by how they are acquired. */
function nodeRedlock(title: string, lock: (ttlMs: number) => string, caution?: string): Library {
  return {
    title,
    file: 'where the Redlock is made (JavaScript)',
    drift: MS_AND_2,
    acquire: (ttlMs, factor) => [
      ...factorLine(`const redlock = new Redlock(clients, { driftFactor: ${factor} });`, factor),
      lock(ttlMs),
    ],
    guard: (ms) => [`if (lock.expiration - Date.now() < ${ms}) throw new Error('too late to write');`],
    fencing: false,
    ...(caution === undefined ? {} : { caution }),
  };
}

/** redsync, of which options were methods and fields of other names in older versions. */
function redsync(title: string, constantUs: number): Library {
  return {
    title,
    file: 'where the mutex is made (Go)',
    drift: { constantUs, whole: 'exact' },
    acquire: (ttlMs, factor) => {
      const drift = factor === null ? '' : `, redsync.WithDriftFactor(${factor})`;
      return [`mutex := rs.NewMutex(name, redsync.WithExpiry(${ttlMs}*time.Millisecond)${drift})`];
    },
    guard: (ms) => [`if time.Until(mutex.Until()) < ${ms}*time.Millisecond { return errors.New("too late to write") }`],
    fencing: false,
    caution:
      'It has one token for all tries of a call. Where a pool of connections reorders messages, a late release of one try can delete the key of the next (replay S39). WithTries(1), and a loop of your own around it, gives each try its own token.',
  };
}

/** One whose users are told how long their lock is valid, in ms, as of now. */
function relative(
  title: string,
  parts: Pick<Library, 'file' | 'drift' | 'acquire' | 'guard'>,
  caution?: string,
): Library {
  return { title, ...parts, fencing: false, ...(caution === undefined ? {} : { caution }) };
}

const LIBRARIES: Readonly<Record<string, Library>> = {
  reference: {
    title: 'lockstep-redlock',
    file: 'where the Redlock is made (TypeScript)',
    drift: { constantUs: 2_000, whole: 'exact' },
    acquire: (ttlMs, factor, fencing = false) => {
      const settings = [...factorLine(`driftFactor: ${factor}`, factor), ...(fencing ? ['fencing: true'] : [])];
      return [
        ...(settings.length === 0 ? [] : [`const redlock = new Redlock(clients, { ${settings.join(', ')} });`]),
        `await using lock = await redlock.acquire(name, ${ttlMs});`,
      ];
    },
    guard: (ms) => [`if (lock.remaining() < ${ms}) throw new Error('too late to write');`],
    fencing: true,
  },
  'redsync-4': redsync('redsync 4', 0),
  'redsync-2020': redsync('redsync of 2020', 0),
  'redlock-py': relative('redlock-py', {
    file: 'where the Redlock is made (Python)',
    drift: MS_AND_2,
    acquire: (ttlMs, factor) => [
      ...factorLine(`dlm.clock_drift_factor = ${factor}`, factor),
      `lock = dlm.lock(name, ${ttlMs})`,
      'until = time.time() + lock.validity / 1000',
    ],
    guard: (ms) => [`if until - time.time() < ${seconds(ms)}: raise TimeoutError("too late to write")`],
  }),
  'redlock-php': relative(
    'redlock-php',
    {
      file: 'where the lock is taken (PHP)',
      drift: null,
      acquire: (ttlMs) => [
        `$lock = $redLock->lock($name, ${ttlMs});`,
        "$until = microtime(true) + $lock['validity'] / 1000;",
      ],
      guard: (ms) => [
        `if ($until - microtime(true) < ${seconds(ms)}) throw new RuntimeException('too late to write');`,
      ],
    },
    'Its tokens are the time of day: two processes that ask in the same microsecond share one (replay F10).',
  ),
  redisson: {
    title: 'Redisson, RedissonRedLock',
    file: 'where the lock is taken (Java)',
    drift: null,
    acquire: (ttlMs) => [
      'long asked = System.nanoTime();',
      `boolean held = redLock.tryLock(${ttlMs}, ${ttlMs}, TimeUnit.MILLISECONDS);`,
    ],
    guard: (ms, ttlMs) => [
      `long left = ${ttlMs} - (System.nanoTime() - asked) / 1_000_000;`,
      `if (left < ${ms}) throw new IllegalStateException("too late to write");`,
    ],
    fencing: false,
    caution: 'Redisson has deprecated RedissonRedLock; its clock-error allowance is nothing and cannot be set.',
  },
  'node-redlock-4': nodeRedlock('node-redlock 4', (ttlMs) => `const lock = await redlock.acquire(name, ${ttlMs});`),
  'node-redlock-5': nodeRedlock(
    'node-redlock 5',
    (ttlMs) => `const lock = await redlock.acquire([name], ${ttlMs});`,
    'It returns locks whose time is over already: look at lock.expiration first.',
  ),
  'node-redlock-main': nodeRedlock(
    'node-redlock, main',
    (ttlMs) => `const lock = await redlock.acquire([name], ${ttlMs});`,
    'It returns locks whose time is over already: look at lock.expiration first.',
  ),
  'sesamecare-redlock': nodeRedlock(
    '@sesamecare-oss/redlock',
    (ttlMs) => `const lock = await redlock.acquire([name], ${ttlMs});`,
    'It returns locks whose time is over already: look at lock.expiration first.',
  ),
  'distributed-lock-redis': {
    title: 'DistributedLock.Redis',
    file: 'where the lock is made (C#)',
    drift: { constantUs: 0, whole: 'exact' },
    acquire: (ttlMs, factor) => {
      const valid =
        factor === null ? '' : `.MinValidityTime(TimeSpan.FromMilliseconds(${minValidityMs(ttlMs, factor)}))`;
      return [
        'var asked = Stopwatch.StartNew();',
        `var l = new RedisDistributedLock(name, databases, o => o.Expiry(TimeSpan.FromMilliseconds(${ttlMs}))${valid});`,
      ];
    },
    guard: (ms, ttlMs) => [
      `if (${ttlMs} - asked.ElapsedMilliseconds < ${ms}) throw new TimeoutException("too late to write");`,
    ],
    fencing: false,
  },
};

/** Its allowance is what the validity that it guarantees falls short of the expiry. */
function minValidityMs(ttlMs: number, factor: string): number {
  return Math.floor(ttlMs * (1 - Number(factor)));
}

/** A client of which only the TTL is sure to be an argument. */
function otherLibrary(profile: string): Library {
  return {
    title: profile,
    file: 'where the lock is taken',
    drift: null,
    acquire: (ttlMs) => [`# TTL: ${ttlMs} ms`],
    guard: (ms) => [`# before each write: at least ${ms} ms of the validity must be left`],
    fencing: false,
  };
}

/** What the users of a client can set. */
export function libraryOf({ profile }: Policy): Library {
  return (Object.hasOwn(LIBRARIES, profile) ? LIBRARIES[profile] : undefined) ?? otherLibrary(profile);
}

const MILLION = 1_000_000;

/** The least drift factor of a client, ppm, that gives an allowance of so many µs; `null` where it has none, or none so great. */
export function driftFactorPpm({ drift }: Library, ttlMs: number, allowanceUs: number): number | null {
  if (drift === null) return null;
  const ofFactorUs = Math.max(0, allowanceUs - drift.constantUs);
  const neededUs = drift.whole === 'cut' ? 1000 * Math.ceil(ofFactorUs / 1000) : ofFactorUs;
  const ppm = Math.ceil((neededUs * 1000) / ttlMs);
  // A product in floating point that falls short of a whole ms would be cut by one.
  const enough = drift.whole === 'exact' || Math.trunc((ttlMs * ppm) / MILLION) * 1000 >= neededUs ? ppm : ppm + 1;
  return enough < MILLION ? enough : null;
}

/** A factor as people write it. */
export function formatFactor(ppm: number): string {
  return (ppm / MILLION).toFixed(6).replace(/0+$/, '').replace(/\.$/, '');
}
