import type { Instance } from './instance.js';
import type { Keyspace } from './keyspace.js';
import type { Reply } from './reply.js';
import type { Session } from './session.js';

/** Where a command is carried out. */
export interface Call {
  readonly instance: Instance;
  readonly session: Session;
  /** The database that the connection has selected. */
  readonly keys: Keyspace;
  /** Whether a script or a transaction calls: nothing waits there. */
  readonly isNested: boolean;
}

/** Carries out a command. Throws a `Failure` or returns it. @param argv - With its name as the first. */
export type Handler = (argv: readonly string[], call: Call) => Reply;

/**
 * What a server has to know of a command before it is carried out: `w`rites, `r`eads, may add to memory (`m`), not from
 * `s`cripts, not in a transaction (`t`), `a`llowed without authentication, `p`ropagated though it
 * writes nothing.
 */
type Flags = string;

/** A command as a server knows it. */
export interface Command {
  /** In lower case, with its container: `client|setname`. */
  readonly name: string;
  /** How many words it has, with its name; at least so many if negative. */
  readonly arity: number;
  readonly flags: Flags;
  readonly handler: Handler;
  /** The places of its keys: the first, the last (from the end if negative) and the step. */
  readonly keys: readonly [number, number, number];
  readonly subcommands?: ReadonlyMap<string, Command>;
  /** The versions that brought it, if 7.0 did not have it. */
  readonly since?: { readonly redis?: string; readonly valkey?: string };
}

/** A row of a table of commands. */
export type Row = readonly [
  arity: number,
  flags: Flags,
  handler: Handler,
  keys?: readonly [number, number, number],
  since?: NonNullable<Command['since']>,
];

const NO_KEYS = [0, 0, 0] as const;

/** Commands from rows by name. */
export function table(rows: Readonly<Record<string, Row>>, container = ''): Map<string, Command> {
  const commands = new Map<string, Command>();
  for (const [name, [arity, flags, handler, keys = NO_KEYS, since]] of Object.entries(rows)) {
    const full = container === '' ? name : `${container}|${name}`;
    commands.set(name, { name: full, arity, flags, handler, keys, ...(since === undefined ? {} : { since }) });
  }
  return commands;
}

/** A command that is nothing without a subcommand. */
export function container(name: string, flags: Flags, rows: Readonly<Record<string, Row>>): Command {
  const handler: Handler = () => null;
  return { name, arity: -2, flags, handler, keys: NO_KEYS, subcommands: table(rows, name) };
}

/** The first argument is the key. */
export const KEY = [1, 1, 1] as const;
/** All arguments are keys. */
export const KEYS = [1, -1, 1] as const;
