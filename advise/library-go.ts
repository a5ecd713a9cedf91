import type { Acquisition, Library } from './library.js';

/** redsync. Before 4.4 its mutexes do not tell until when they are valid: their users have to count from when they asked. */
export function redsync(title: string, tellsUntil: boolean): Library {
  return {
    title,
    file: 'where the mutex is made (Go), in a function that returns an error',
    drift: { constantUs: 0, whole: 'exact' },
    pooled: true,
    ...(tellsUntil ? { timeout: { ppm: 50_000 } } : {}),
    timeoutHint: tellsUntil
      ? 'go-redis 9 keeps to that with ContextTimeoutEnabled, and else waits its ReadTimeout (3 s)'
      : 'in go-redis that is its ReadTimeout, for each of its tries (MaxRetries)',
    tryOnce: 'WithTries(1)',
    acquire: (wanted) => {
      const { ttlMs, factor, timeoutFactor, ownTokens } = wanted;
      const options = [
        `redsync.WithExpiry(${duration(ttlMs)})`,
        ...(factor === null ? [] : [`redsync.WithDriftFactor(${factor})`]),
        ...(timeoutFactor === null ? [] : [`redsync.WithTimeoutFactor(${timeoutFactor})`]),
        ...(ownTokens ? ['redsync.WithTries(1)'] : []),
      ];
      const asks = wanted.guarded && !tellsUntil;
      const call = tellsUntil ? 'mutex.LockContext(ctx)' : 'mutex.Lock()';
      return withImports([
        ...(tellsUntil ? ['// go-redis 9: its redis.Options with ContextTimeoutEnabled: true'] : []),
        `mutex := rs.NewMutex(name, ${options.join(', ')})`,
        ...(ownTokens ? loop(call, asks) : once(call, asks)),
        ...work(wanted),
      ]);
    },
    guard: (ms, validMs) => [
      `if ${tellsUntil ? 'time.Until(mutex.Until())' : `${duration(validMs)}-time.Since(asked)`} < ${duration(ms)} {`,
      '\treturn errors.New("too late to write")',
      '}',
    ],
    fencing: false,
  };
}

function duration(ms: number): string {
  return ms % 1000 === 0 ? `${ms / 1000}*time.Second` : `${ms}*time.Millisecond`;
}

function once(call: string, asks: boolean): string[] {
  return [...(asks ? ['asked := time.Now()'] : []), `if err := ${call}; err != nil {`, '\treturn err', '}'];
}

/** As often, and with the pauses, that redsync 4 has by itself. */
function loop(call: string, asks: boolean): string[] {
  return [
    ...(asks ? ['var asked time.Time'] : []),
    'for try := 1; ; try++ { // each call has a token of its own',
    ...(asks ? ['\tasked = time.Now()'] : []),
    `\terr := ${call}`,
    '\tif err == nil {',
    '\t\tbreak',
    '\t}',
    '\tif try == 32 {',
    '\t\treturn err',
    '\t}',
    '\tselect {',
    '\tcase <-ctx.Done():',
    '\t\treturn ctx.Err()',
    '\tcase <-time.After(time.Duration(50+rand.Intn(200)) * time.Millisecond):',
    '\t}',
    '}',
  ];
}

/** Packages of the standard library that the lines, or a guard in the work, call. */
const PACKAGES = ['context', 'errors', 'log', 'math/rand', 'time'];

function withImports(lines: readonly string[]): string[] {
  const used = PACKAGES.filter((path) => lines.some((line) => line.includes(`${path.split('/').at(-1)}.`)));
  return [`// imports, besides redsync: ${used.join(', ')}`, ...lines];
}

function work({ workMs }: Acquisition): string[] {
  return [
    'defer func() {',
    '\tif ok, err := mutex.Unlock(); !ok || err != nil {',
    '\t\tlog.Printf("lock %s was over before its release, or a majority did not answer: %v", name, err)',
    '\t}',
    '}()',
    ...(workMs === null
      ? ['return work(ctx) // yours']
      : [
          `ctx, cancel := context.WithTimeout(ctx, ${duration(workMs)})`,
          'defer cancel()',
          'return work(ctx) // yours: it has to stop when ctx is done',
        ]),
  ];
}
