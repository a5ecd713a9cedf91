import type { Command } from 'commander';
import { parseDuration } from '../scenarios/duration.js';
import type { VerifyFlags } from './flags.js';
import type { Finish, Io } from './io.js';
import { option } from './option.js';

const EXAMPLES = `
A history is a file of JSON lines: what each client asked for, what it was told and when. Only what
is certain counts, so "passed" says that nothing was proven, not that nothing was wrong.
Times are µs by one observer, or by several whose clocks are at most "errorUs" wrong:
  {"type":"acquire","lock":"c1/0","client":"c1","resources":["a"],"ttlMs":1000,"atUs":0,"errorUs":1}
  {"type":"acquired","lock":"c1/0","validUs":988000,"atUs":900,"errorUs":1}
Other types: failed, extend (ttlMs), extended and not-extended (validUs), release, released,
write (resource), unknown. An "acquired" may tell the lock's "fencingToken": {"counter","attempt"}.
Who sees a client die says so: {"type":"crashed","client":"c1","atUs":5000,"errorUs":900}; it held
its locks until then, less the error.
Recorded by several machines whose clocks differ, a history needs --clock-error: the bound on how far
each clock may be from the true time, such as what NTP or PTP reports. Lines that state more keep it.
Exits with 0 if it passed, 1 if it is violated, 2 if it is inconclusive.

Examples:
  lockstep verify run.jsonl
  lockstep verify client-1.jsonl client-2.jsonl --clock-error 5ms
  lockstep verify run.jsonl --json`;

/** Defines `verify`. */
export function defineVerify(program: Command, io: Io, finish: Finish): void {
  program
    .command('verify')
    .description('check what real clients recorded')
    .argument('<history...>', 'files of JSON lines; all lines of one lock are in one file')
    .addOption(
      option('--clock-error <time>', 'how far the clocks of the clients may be off, at least (0)', parseDuration),
    )
    .option('--json', 'print one JSON object')
    .addHelpText('after', EXAMPLES)
    .action(async (history: string[], flags: VerifyFlags) => {
      const { verify } = await import('./verify.js');
      finish(verify(history, flags, io));
    });
}
