import '../runtime/installed.js';
import { fileURLToPath } from 'node:url';
import { SOCKET_CLIENTS } from '../../bench/socket-locks.js';
import { RandomStreams } from '../../sim/index.js';
import { LIBRARIES, loadSubject } from '../adapters/index.js';
import { type LockFactory, lockFactoryOf } from '../lock-factory.js';
import { watchdog } from '../runtime/watchdog.js';
import { FAULT_CLASSES, withstood } from '../search/fault-classes.js';
import { drawLibraryRun } from '../search/search.js';

/** Events from one collection of all garbage to the next. */
const ALL_EVERY = 20;

const subjects = new Map<string, LockFactory>();

/** The hash of one run of a library, with spikes that reorder, or of a lock above a client of its own, with resets. */
export async function hashOf(id: string, seed: string, number: number): Promise<string> {
  const subject = subjects.get(id) ?? (await subjectNamed(id));
  subjects.set(id, subject);
  const faultsId = subject.seen.sockets ? 'resets' : 'spikes-reordering';
  const faults = [...FAULT_CLASSES, ...withstood(true)].find((it) => it.id === faultsId);
  if (faults === undefined) throw new Error(`no faults ${faultsId}`);
  return (await drawLibraryRun(subject, faults, new RandomStreams(seed), number)).run.hash;
}

async function subjectNamed(id: string): Promise<LockFactory> {
  const makeFor = SOCKET_CLIENTS[id];
  if (makeFor !== undefined) return lockFactoryOf(id, makeFor('own'), undefined);
  const library = LIBRARIES.find((it) => it.id === id);
  if (library === undefined) throw new Error(`no library ${id}`);
  return loadSubject(library);
}

/** Collects garbage before every event: young objects, and all that there are from time to time. */
function collectEagerly(collect: NonNullable<typeof globalThis.gc>): void {
  const beat = watchdog.beat.bind(watchdog);
  let events = 0;
  watchdog.beat = (isAway) => {
    if (++events % ALL_EVERY === 0) collect();
    else collect({ type: 'minor' });
    beat(isAway);
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , id = '', seed = '', number = '0'] = process.argv;
  process.stdout.write(`${await hashOf(id, seed, Number(number))}\n`);
  if (globalThis.gc === undefined) throw new Error('garbage is collected by --expose-gc only');
  collectEagerly(globalThis.gc);
  process.stdout.write(`${await hashOf(id, seed, Number(number))}\n`);
}
