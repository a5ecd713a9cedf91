import type { DriftOption, Library } from './library.js';

/*
 * What the users of a client can set, in that client's own words, and no more than it has. Where a value was read is with
 * its profile in `deviations/profiles/`; options that this list names beside them were read in the same files.
 */

const MS_AND_2: DriftOption = { constantUs: 2_000, whole: 'cut' };

const seconds = (ms: number): string => `${ms / 1000}`;
const factorLine = (line: string, factor: string | null): string[] => (factor === null ? [] : [line]);

/** The clients of node-redlock's family, by what they are asked for. */
function nodeRedlock(title: string, names: string, caution?: string): Library {
  return {
    title,
    file: 'where the Redlock is made (JavaScript)',
    drift: MS_AND_2,
    pooled: false,
    tryOnce: 'retryCount: 0',
    acquire: ({ ttlMs, factor, ownTokens }) => {
      const settings = [...factorLine(`driftFactor: ${factor}`, factor), ...(ownTokens ? ['retryCount: 0'] : [])];
      const acquire = `await redlock.acquire(${names}, ${ttlMs})`;
      return [
        ...(settings.length === 0 ? [] : [`const redlock = new Redlock(clients, { ${settings.join(', ')} });`]),
        ...(ownTokens
          ? [
              'let lock;',
              'for (let tries = 10; lock === undefined; tries--) // each call has a token of its own',
              `  lock = ${acquire}.catch(async (error) => {`,
              '    if (tries === 0) throw error;',
              '    await new Promise((resolve) => setTimeout(resolve, 200 + 100 * Math.random()));',
              '  });',
            ]
          : [`const lock = ${acquire};`]),
      ];
    },
    guard: (ms) => [`if (lock.expiration - Date.now() < ${ms}) throw new Error('too late to write');`],
    fencing: false,
    ...(caution === undefined ? {} : { caution }),
  };
}

/** redsync. Before 4.4 its mutexes do not tell until when they are valid: their users have to count from when they asked. */
function redsync(title: string, tellsUntil: boolean): Library {
  return {
    title,
    file: 'where the mutex is made (Go)',
    drift: { constantUs: 0, whole: 'exact' },
    pooled: true,
    tryOnce: 'WithTries(1)',
    acquire: ({ ttlMs, factor, ownTokens }) => {
      const options = [
        `redsync.WithExpiry(${ttlMs}*time.Millisecond)`,
        ...factorLine(`redsync.WithDriftFactor(${factor})`, factor),
        ...(ownTokens ? ['redsync.WithTries(1)'] : []),
      ];
      const mutex = `mutex := rs.NewMutex(name, ${options.join(', ')})`;
      const asked = tellsUntil ? [] : ['asked := time.Now() // right before mutex.Lock()'];
      return ownTokens ? [mutex, ...goLoop(tellsUntil)] : [mutex, ...asked];
    },
    guard: (ms, ttlMs) => [
      `if ${tellsUntil ? 'time.Until(mutex.Until())' : `${ttlMs}*time.Millisecond-time.Since(asked)`} < ${ms}*time.Millisecond {`,
      '\treturn errors.New("too late to write")',
      '}',
    ],
    fencing: false,
  };
}

/** As often, and with the pauses, that redsync 4 has by itself. */
function goLoop(tellsUntil: boolean): string[] {
  return [
    ...(tellsUntil ? [] : ['var asked time.Time']),
    'for try := 1; ; try++ { // each Lock has a token of its own',
    ...(tellsUntil ? [] : ['\tasked = time.Now()']),
    '\terr := mutex.Lock()',
    '\tif err == nil {',
    '\t\tbreak',
    '\t}',
    '\tif try == 32 {',
    '\t\treturn err',
    '\t}',
    '\ttime.Sleep(time.Duration(50+rand.Intn(200)) * time.Millisecond)',
    '}',
  ];
}

const REDLOCK_PY: Library = {
  title: 'redlock-py',
  file: 'where the Redlock is made (Python)',
  drift: MS_AND_2,
  pooled: false,
  tryOnce: 'retry_count = 1',
  acquire: ({ ttlMs, factor, ownTokens }) => [
    ...factorLine(`dlm.clock_drift_factor = ${factor}`, factor),
    ...(ownTokens
      ? [
          'dlm.retry_count = 1',
          'for _ in range(3):  # each call has a token of its own, and sleeps if it fails',
          `    lock = dlm.lock(name, ${ttlMs})`,
          '    if lock: break',
        ]
      : [`lock = dlm.lock(name, ${ttlMs})`]),
    'if not lock: raise TimeoutError("no lock")',
    'until = time.time() + lock.validity / 1000',
  ],
  guard: (ms) => [`if until - time.time() < ${seconds(ms)}: raise TimeoutError("too late to write")`],
  fencing: false,
};

const REDLOCK_PHP: Library = {
  title: 'redlock-php',
  file: 'where the lock is taken (PHP)',
  drift: null,
  pooled: false,
  tryOnce: '$retryCount = 1',
  acquire: ({ ttlMs, ownTokens }) => [
    ...(ownTokens
      ? [
          '$redLock = new RedLock($servers, 200, 1);',
          'for ($tries = 3, $lock = false; !$lock && $tries > 0; $tries--) // each call has a token of its own, and sleeps if it fails',
          `    $lock = $redLock->lock($name, ${ttlMs});`,
        ]
      : [`$lock = $redLock->lock($name, ${ttlMs});`]),
    "if (!$lock) throw new RuntimeException('no lock');",
    "$until = microtime(true) + $lock['validity'] / 1000;",
  ],
  guard: (ms) => [`if ($until - microtime(true) < ${seconds(ms)}) throw new RuntimeException('too late to write');`],
  fencing: false,
  caution: 'Its tokens are the time of day: two processes that ask in the same microsecond share one (replay F10).',
};

const REDISSON: Library = {
  title: 'Redisson, RedissonRedLock',
  file: 'where the lock is taken (Java)',
  drift: null,
  pooled: true,
  acquire: ({ ttlMs }) => [
    'long asked = System.nanoTime();',
    `boolean held = redLock.tryLock(${ttlMs}, ${ttlMs}, TimeUnit.MILLISECONDS);`,
  ],
  guard: (ms, ttlMs) => [
    `long left = ${ttlMs} - (System.nanoTime() - asked) / 1_000_000;`,
    `if (left < ${ms}) throw new IllegalStateException("too late to write");`,
  ],
  fencing: false,
  caution: 'Redisson has deprecated RedissonRedLock; its clock-error allowance is nothing and cannot be set.',
};

const DISTRIBUTED_LOCK: Library = {
  title: 'DistributedLock.Redis',
  file: 'where the lock is made (C#)',
  drift: { constantUs: 0, whole: 'exact' },
  pooled: false,
  acquire: ({ ttlMs, factor }) => {
    const valid = factor === null ? '' : `.MinValidityTime(TimeSpan.FromMilliseconds(${minValidityMs(ttlMs, factor)}))`;
    return [
      'var asked = Stopwatch.StartNew();',
      `var l = new RedisDistributedLock(name, databases, o => o.Expiry(TimeSpan.FromMilliseconds(${ttlMs}))${valid});`,
    ];
  },
  guard: (ms, ttlMs) => [
    `if (${ttlMs} - asked.ElapsedMilliseconds < ${ms}) throw new TimeoutException("too late to write");`,
  ],
  fencing: false,
};

const REFERENCE: Library = {
  title: 'lockstep-redlock',
  file: 'where the Redlock is made (TypeScript)',
  drift: { constantUs: 2_000, whole: 'exact' },
  pooled: false,
  acquire: ({ ttlMs, factor, fencing }) => {
    const settings = [...factorLine(`driftFactor: ${factor}`, factor), ...(fencing ? ['fencing: true'] : [])];
    return [
      ...(settings.length === 0 ? [] : [`const redlock = new Redlock(clients, { ${settings.join(', ')} });`]),
      ...(fencing ? ['// once, as the nodes are new, and not at each start: await redlock.recoverFencing(0);'] : []),
      `await using lock = await redlock.acquire(name, ${ttlMs});`,
      ...(fencing ? ['// with each write: lock.fencingToken'] : []),
    ];
  },
  guard: (ms) => [`if (lock.remaining() < ${ms}) throw new Error('too late to write');`],
  fencing: true,
};

const RETURNS_LATE = 'It returns locks whose time is over already: look at lock.expiration first.';

/** Clients by their profiles. */
export const LIBRARIES: Readonly<Record<string, Library>> = {
  reference: REFERENCE,
  'redsync-4': redsync('redsync 4', true),
  'redsync-2020': redsync('redsync of 2020', false),
  'redlock-py': REDLOCK_PY,
  'redlock-php': REDLOCK_PHP,
  redisson: REDISSON,
  'node-redlock-4': nodeRedlock('node-redlock 4', 'name'),
  'node-redlock-5': nodeRedlock('node-redlock 5', '[name]', RETURNS_LATE),
  'node-redlock-main': nodeRedlock('node-redlock, main', '[name]', RETURNS_LATE),
  'sesamecare-redlock': nodeRedlock('@sesamecare-oss/redlock', '[name]', RETURNS_LATE),
  'distributed-lock-redis': DISTRIBUTED_LOCK,
};

/** Its allowance is what the validity that it guarantees falls short of the expiry. */
function minValidityMs(ttlMs: number, factor: string): number {
  return Math.floor(ttlMs * (1 - Number(factor)));
}

/** A client of which only the TTL is sure to be an argument. */
export function otherLibrary(profile: string): Library {
  return {
    title: profile,
    file: 'where the lock is taken',
    drift: null,
    pooled: false,
    acquire: ({ ttlMs }) => [`# TTL: ${ttlMs} ms`],
    guard: (ms) => [`# before each write: at least ${ms} ms of the validity must be left`],
    fencing: false,
  };
}
