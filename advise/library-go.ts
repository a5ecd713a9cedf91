import type { Acquisition, Library } from './library.js';

/** redsync. Before 4.4 its mutexes do not tell until when they are valid: their users have to count from when they asked. */
export function redsync(title: string, tellsUntil: boolean): Library {
  return {
    title,
    file: 'where the mutex is made (Go), in a function that returns an error',
    drift: { constantUs: 0, whole: 'exact' },
    pooled: true,
    tryOnce: 'WithTries(1)',
    acquire: (wanted) => {
      const { ttlMs, factor, ownTokens } = wanted;
      const options = [
        `redsync.WithExpiry(${duration(ttlMs)})`,
        ...(factor === null ? [] : [`redsync.WithDriftFactor(${factor})`]),
        ...(ownTokens ? ['redsync.WithTries(1)'] : []),
      ];
      const asks = wanted.guarded && !tellsUntil;
      const call = tellsUntil ? 'mutex.LockContext(ctx)' : 'mutex.Lock()';
      return [
        `mutex := rs.NewMutex(name, ${options.join(', ')})`,
        ...(ownTokens ? loop(call, asks) : once(call, asks)),
        ...work(wanted),
      ];
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
    '\tif try == 32 || ctx.Err() != nil {',
    '\t\treturn err',
    '\t}',
    '\ttime.Sleep(time.Duration(50+rand.Intn(200)) * time.Millisecond)',
    '}',
  ];
}

function work({ workMs }: Acquisition): string[] {
  return [
    'defer func() {',
    '\tif ok, err := mutex.Unlock(); !ok || err != nil {',
    '\t\tlog.Printf("lock %s was over before its release: %v", name, err)',
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
