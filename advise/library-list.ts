import type { Acquisition, DriftOption, Library } from './library.js';
import { redsync } from './library-go.js';

/*
 * What the users of a client can set, in that client's own words, and no more than it has. Where a value was read is with
 * its profile in `deviations/profiles/`; options that this list names beside them were read in the same files.
 */

const MS_AND_2: DriftOption = { constantUs: 2_000, whole: 'cut' };

const seconds = (ms: number): string => `${ms / 1000}`;
const factorLine = (line: string, factor: string | null): string[] => (factor === null ? [] : [line]);
const only = (line: string, isWanted: boolean): string[] => (isWanted ? [line] : []);

/** The clients of node-redlock's family, by what they are asked for and how a lock is released. */
function nodeRedlock(title: string, names: string, release: string, caution?: string): Library {
  return {
    title,
    file: 'where the lock is taken (JavaScript)',
    drift: MS_AND_2,
    pooled: false,
    timeoutHint: 'of ioredis that is its commandTimeout, and by default it has none',
    tryOnce: 'retryCount: 0',
    acquire: ({ ttlMs, factor, ownTokens, workMs }) => {
      const settings = [...factorLine(`driftFactor: ${factor}`, factor), ...only('retryCount: 0', ownTokens)];
      const acquire = `await redlock.acquire(${names}, ${ttlMs})`;
      return [
        ...only(`const redlock = new Redlock(clients, { ${settings.join(', ')} });`, settings.length > 0),
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
        'try {',
        workMs === null
          ? '  await work(); // yours'
          : `  await work(AbortSignal.timeout(${workMs})); // yours: it has to stop then`,
        '} finally {',
        `  await lock.${release}().catch(() => {}); // it may be over already`,
        '}',
      ];
    },
    guard: (ms) => [`if (lock.expiration - Date.now() < ${ms}) throw new Error('too late to write');`],
    fencing: false,
    ...(caution === undefined ? {} : { caution }),
  };
}

const REDLOCK_PY: Library = {
  title: 'redlock-py',
  file: 'where the lock is taken (Python)',
  drift: MS_AND_2,
  pooled: false,
  tryOnce: 'retry_count = 1',
  acquire: ({ ttlMs, factor, ownTokens, workMs, guarded }) => [
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
    ...only('until = time.time() + lock.validity / 1000', guarded),
    'try:',
    workMs === null
      ? '    work()  # yours'
      : `    work(time.monotonic() + ${seconds(workMs)})  # yours: it has to stop then`,
    'finally:',
    '    dlm.unlock(lock)',
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
  acquire: ({ ttlMs, ownTokens, workMs, guarded }) => [
    ...(ownTokens
      ? [
          '$redLock = new RedLock($servers, 200, 1);',
          'for ($tries = 3, $lock = false; !$lock && $tries > 0; $tries--) // each call has a token of its own, and sleeps if it fails',
          `    $lock = $redLock->lock($name, ${ttlMs});`,
        ]
      : [`$lock = $redLock->lock($name, ${ttlMs});`]),
    "if (!$lock) throw new RuntimeException('no lock');",
    ...only("$until = microtime(true) + $lock['validity'] / 1000;", guarded),
    'try {',
    workMs === null
      ? '    work(); // yours'
      : `    work(hrtime(true) + ${workMs} * 1_000_000); // yours: it has to stop then`,
    '} finally {',
    '    $redLock->unlock($lock);',
    '}',
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
  acquire: ({ ttlMs, workMs, guarded }) => [
    ...only('long asked = System.nanoTime();', guarded),
    `if (!redLock.tryLock(${ttlMs}, ${ttlMs}, TimeUnit.MILLISECONDS)) throw new IllegalStateException("no lock");`,
    'try {',
    workMs === null
      ? '    work(); // yours'
      : `    work(System.nanoTime() + ${workMs} * 1_000_000L); // yours: it has to stop then`,
    '} finally {',
    '    redLock.unlock();',
    '}',
  ],
  guard: (ms, validMs) => [
    `long left = ${validMs} - (System.nanoTime() - asked) / 1_000_000;`,
    `if (left < ${ms}) throw new IllegalStateException("too late to write");`,
  ],
  fencing: false,
  caution: 'Redisson has deprecated RedissonRedLock; its clock-error allowance is nothing and cannot be set.',
};

const DISTRIBUTED_LOCK: Library = {
  title: 'DistributedLock.Redis',
  timeout: 'allowance',
  file: 'where the lock is made (C#)',
  drift: { constantUs: 0, whole: 'exact' },
  pooled: false,
  acquire: ({ ttlMs, factor, workMs, guarded }) => {
    const valid = factor === null ? '' : `.MinValidityTime(TimeSpan.FromMilliseconds(${minValidityMs(ttlMs, factor)}))`;
    return [
      `// using Medallion.Threading.Redis; using System; ${guarded ? 'using System.Diagnostics; ' : ''}using System.Threading;`,
      `var l = new RedisDistributedLock(name, databases, o => o.Expiry(TimeSpan.FromMilliseconds(${ttlMs}))${valid});`,
      ...only('var asked = Stopwatch.StartNew(); // extensions do not tell how much is left', guarded),
      'using (var handle = await l.AcquireAsync())',
      'using (var stop = CancellationTokenSource.CreateLinkedTokenSource(handle.HandleLostToken)) {',
      ...(workMs === null ? [] : [`    stop.CancelAfter(${workMs});`]),
      '    await Work(stop.Token); // yours: it has to stop then',
      '}',
    ];
  },
  guard: (ms, validMs) => [
    `if (${validMs} - asked.ElapsedMilliseconds < ${ms}) throw new TimeoutException("too late to write");`,
  ],
  fencing: false,
};

const REFERENCE: Library = {
  title: 'lockstep-redlock',
  file: 'where the lock is taken (TypeScript)',
  drift: { constantUs: 2_000, whole: 'exact' },
  pooled: false,
  acquire: ({ ttlMs, factor, fencing, workMs }) => {
    const settings = [...factorLine(`driftFactor: ${factor}`, factor), ...only('fencing: true', fencing)];
    const signal = workMs === null ? 'lock.signal' : `AbortSignal.any([lock.signal, AbortSignal.timeout(${workMs})])`;
    return [
      ...only(`const redlock = new Redlock(clients, { ${settings.join(', ')} });`, settings.length > 0),
      ...only('// once, as the nodes are new, and not at each start: await redlock.recoverFencing(0);', fencing),
      `await using lock = await redlock.acquire(name, ${ttlMs}); // is released at the end of the block`,
      ...only('// with each write: lock.fencingToken', fencing),
      `await work(${signal}); // yours: it has to stop then`,
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
  'node-redlock-4': nodeRedlock('node-redlock 4', 'name', 'unlock'),
  'node-redlock-5': nodeRedlock('node-redlock 5', '[name]', 'release', RETURNS_LATE),
  'node-redlock-main': nodeRedlock('node-redlock, main', '[name]', 'release', RETURNS_LATE),
  'sesamecare-redlock': nodeRedlock('@sesamecare-oss/redlock', '[name]', 'release', RETURNS_LATE),
  'distributed-lock-redis': DISTRIBUTED_LOCK,
};

/** Its allowance is what the validity that it guarantees falls short of the expiry. */
function minValidityMs(ttlMs: number, factor: string): number {
  return Math.floor(ttlMs * (1 - Number(factor)));
}

/** A client of which only the TTL is sure to be an argument. */
export function otherLibrary(profile: string): Library {
  const over = ({ workMs }: Acquisition): string[] =>
    workMs === null ? [] : [`# the work has to stop after ${workMs} ms; release the lock then`];
  return {
    title: profile,
    file: 'where the lock is taken',
    drift: null,
    pooled: false,
    acquire: (wanted) => [`# TTL: ${wanted.ttlMs} ms`, ...over(wanted)],
    guard: (ms) => [`# before each write: at least ${ms} ms of the validity must be left`],
    fencing: false,
  };
}
