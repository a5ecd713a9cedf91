import type { FaultModel } from '../../search/fault-model.js';
import { COMMAND_TIMEOUT_MS } from '../lock-factory.js';
import type { ExpectSafeOptions, TestFaults } from '../options.js';
import { type FaultClass, twoTasks, withstood } from './fault-classes.js';

const DEFAULT_TTL_MS = 10_000;
/** One that is no whole number of seconds, and a short one, among them. */
const SOME_TTLS_MS: FaultModel['ttlsMs'] = [DEFAULT_TTL_MS, 2_500, 730];

/** Where nothing is asked for: commands reject in two of three turns; in the third they never do. */
const TURNS_OF_TIMEOUTS = 3;

/** What a case goes through. */
interface Trial {
  readonly faults: FaultClass;
  readonly commandTimeoutMs: number | undefined;
}

/** Every so many cases, each process makes two acquisitions at once. */
const TURNS_OF_TASKS = 10;

/**
 * The class of case number `n`, in the place of that of its turn, if each process makes two acquisitions at once in it.
 *
 * @param besides - What the second may be of.
 */
export function tasksIn(n: number, besides: readonly string[]): FaultClass | null {
  const [first, ...rest] = besides;
  return first === undefined || n % TURNS_OF_TASKS !== TURNS_OF_TASKS - 1 ? null : twoTasks([first, ...rest]);
}

/**
 * What case number `n` of a test may go through.
 *
 * @param hasConnections - Clients open their own.
 * @param besides - What a process may acquire while it has a lock.
 */
export function casesOf(
  options: ExpectSafeOptions,
  hasConnections: boolean,
  besides: readonly string[] = [],
): (n: number) => Trial {
  const {
    commandTimeoutMs = COMMAND_TIMEOUT_MS,
    faults,
    ttlMs,
    clients = 3,
    nodes,
    reordering,
    restartDelayMs,
    kinds,
  } = options;
  const writes = kinds?.includes('effect') ?? false;
  const link = reordering === undefined ? {} : ({ link: reordering ? 'reordering' : 'fifo' } as const);
  const asked: Partial<FaultModel> = {
    clients,
    ttlsMs: ttlMs === undefined && faults === undefined ? SOME_TTLS_MS : [ttlMs ?? DEFAULT_TTL_MS],
    ...(nodes === undefined ? {} : { nodes }),
    ...(restartDelayMs === undefined ? {} : { restartDelayUs: restartDelayMs * 1000 }),
  };
  if (faults !== undefined) {
    const faultModel = { nodes: 5, ...weatherFor(faults, options), ...asked };
    const trial: Trial = {
      faults: { id: 'asked', title: 'what was asked for', story: '', writes, ...link, faultModel },
      commandTimeoutMs: commandTimeoutMs ?? undefined,
    };
    return () => trial;
  }
  const classes = withstood(hasConnections).filter(
    ({ deadNode, minority }) => (!deadNode && !minority) || (nodes ?? 5) >= 3,
  );
  return (n) => {
    const turn = Math.floor(n / classes.length);
    // In another place in each turn, so that no class is left out for good.
    const it = tasksIn(n + turn, besides) ?? (classes[n % classes.length] as FaultClass);
    // Clocks of one zone in every other turn: what is made of the time comes twice then.
    const alike = turn % 2 === 0 ? {} : { longestOffsetMs: 1 };
    // The class knows better where only some TTLs will do.
    const ttls = ttlMs === undefined && it.minority ? { ttlsMs: it.faultModel.ttlsMs ?? SOME_TTLS_MS } : {};
    // Of a client that has both ways of holding a lock, each extends in its turn.
    const extendsItself = it.strikes === 'holders' ? turn % 2 === 1 : (it.extendsItself ?? false);
    const isPatient = options.commandTimeoutMs === undefined && turn % TURNS_OF_TIMEOUTS === 1;
    return {
      faults: {
        ...it,
        writes,
        extendsItself,
        ...link,
        faultModel: { ...it.faultModel, ...asked, ...ttls, ...alike },
      },
      commandTimeoutMs: isPatient ? undefined : (commandTimeoutMs ?? undefined),
    };
  };
}

function weatherFor(
  faults: TestFaults,
  { ttlMs = DEFAULT_TTL_MS, restartDelayMs = ttlMs }: ExpectSafeOptions,
): Partial<FaultModel> {
  const { crash = 0, pause = 0, partition = 0, wallStep = 0, skewMs = 0, driftPpm = 0, loss = 0, delay = 0 } = faults;
  const stretch = {
    'clock-drift': driftPpm > 0 ? 1 : 0,
    'clock-step': skewMs > 0 ? 1 : 0,
    'restart-delay': crash > 0 ? 1 : 0,
    'data-loss': 0,
    'write-delay': 0,
  };
  return {
    stretch,
    crashes: crash,
    pauses: pause,
    partitions: partition,
    wallSteps: wallStep,
    lossPpm: Math.round(loss * 1_000_000),
    spikePpm: Math.round(delay * 1_000_000),
    restartDelayUs: restartDelayMs * 1000,
    stepUs: skewMs * 1000,
    ratePpm: driftPpm,
  };
}
