import type { z } from 'zod';
import { exactly } from '../scenarios/exactly.js';
import { scheduleGrammar } from '../scenarios/grammar.js';
import { flag, from, oneOf, orNull, record, TTL, text, whole } from '../scenarios/grammar-parts.js';
import { parseSchedule, type Schedule } from '../scenarios/index.js';
import { layOut } from '../scenarios/json-layout.js';
import { readAs } from '../scenarios/read-as.js';
import { parseTextAs } from '../scenarios/read-schedule.js';
import { printable } from '../text/printable.js';
import { shellCommand } from '../text/shell.js';
import { VIOLATION_KINDS, type ViolationKind } from './search/kinds.js';

/**
 * Whose client ran: a library of the matrix, two of them beside each other, that of a file, one that a test had made, or one
 * that was audited.
 */
export interface RecordedClient {
  readonly from: 'library' | 'pair' | 'file' | 'test' | 'audit';
  /** The library's id, two with a comma between, the path of the file, or what the test calls its client. */
  readonly name: string;
  /** Of two: whether they use one key, where some names do that. Default `false`. */
  readonly sameKey?: boolean | undefined;
  /** Of an audit: the flags that said how the lock is used. */
  readonly said?: SaidOfLock | undefined;
}

/** What a person said of an audited lock. */
interface SaidOfLock {
  readonly acquire?: string | undefined;
  readonly release?: string | undefined;
  readonly client?: string | undefined;
  readonly nodes?: number | undefined;
}

/** A failure of somebody's client: it is that client that fails on this schedule, and no other need. */
export interface ClientFailure {
  readonly schema: 'lockstep.client-failure/1';
  readonly client: RecordedClient;
  readonly kind: ViolationKind;
  /** Whether locks extended themselves. */
  readonly extending: boolean;
  /** What commands of its connections rejected after, ms; `null` for never, left out where nothing is known of it. */
  readonly commandTimeoutMs?: number | null | undefined;
  readonly schedule: Schedule;
}

const grammar: z.ZodType<ClientFailure> = exactly<ClientFailure>()(
  record('a failure of a client', {
    schema: oneOf('lockstep.client-failure/1'),
    client: record('a client', {
      from: oneOf('library', 'pair', 'file', 'test', 'audit'),
      name: text('the name of a client'),
      sameKey: flag().optional(),
      said: record('what was said of a lock', {
        acquire: text('the name of a function').optional(),
        release: text('the name of a function').optional(),
        client: text('the name of a client').optional(),
        nodes: whole(from(1)).optional(),
      }).optional(),
    }),
    kind: oneOf(...VIOLATION_KINDS),
    extending: flag(),
    commandTimeoutMs: orNull(TTL, 'never').optional(),
    schedule: scheduleGrammar,
  }),
);

/** A schedule to run a client on, and the failure that it was recorded of, if it was of one. */
interface ClientSchedule {
  readonly schedule: Schedule;
  readonly failure: ClientFailure | null;
}

/** Whether plain data says that it is a {@link ClientFailure}. */
export function isClientFailure(value: unknown): boolean {
  const schema: unknown = typeof value === 'object' && value !== null ? Reflect.get(value, 'schema') : undefined;
  return typeof schema === 'string' && schema.startsWith('lockstep.client-failure/');
}

/**
 * Reads the text of a file: a failure of a client, or a schedule that is nobody's.
 *
 * @param source - What errors call the file.
 * @throws ScheduleError for anything else.
 */
export function parseClientSchedule(content: string, source: string): ClientSchedule {
  return parseTextAs(content, source, (value) => {
    const failure = isClientFailure(value) ? failureIn(value) : null;
    return { schedule: failure?.schedule ?? parseSchedule(value), failure };
  });
}

/** The same for the text of a file that says that it is a failure of a client. */
export function parseClientFailure(content: string, source: string): ClientFailure {
  return parseTextAs(content, source, failureIn);
}

function failureIn(value: unknown): ClientFailure {
  const failure = readAs(grammar, value);
  return { ...failure, schedule: parseSchedule(failure.schedule) };
}

/** The text of a failure's file; equal failures have equal texts. */
export function formatClientFailure(failure: Omit<ClientFailure, 'schema'>): string {
  const { client, kind, extending, commandTimeoutMs, schedule } = failure;
  const timeout = commandTimeoutMs === undefined ? {} : { commandTimeoutMs };
  const schema = 'lockstep.client-failure/1';
  return layOut({ schema, client, kind, extending, ...timeout, schedule: parseSchedule(schedule) });
}

/**
 * What shows a failure again, to be pasted: a command, or the call that its test has to make.
 *
 * @param command - How a person calls `lockstep`.
 * @param path - The file of the failure.
 */
export function replayOf(
  { client, extending }: Pick<ClientFailure, 'client' | 'extending'>,
  path: string,
  command: string,
): string {
  if (client.from === 'audit') return shellCommand(command, 'audit', '--replay', path);
  if (client.from === 'test') return `expectSafe(…, { replay: '${printable(path.replaceAll(/[\\']/g, '\\$&'))}' })`;
  const which = { library: '--only', pair: '--pair', file: '--file' }[client.from];
  const how = [...(client.sameKey ? ['--same-key'] : []), ...(extending ? ['--auto-extend'] : [])];
  return shellCommand(command, 'libraries', '--replay', path, which, client.name, ...how);
}
