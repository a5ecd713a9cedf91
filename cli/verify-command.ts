import type { Command } from 'commander';
import { parseDuration } from '../scenarios/duration.js';
import type { VerifyFlags } from './flags.js';
import type { Finish, Io } from './io.js';
import { option } from './option.js';

const EXAMPLES = `
A history is a file of JSON lines: the calls of each client, their results, and the times. "passed" means that no
violation is provable from the recorded times. It does not mean that there was none.
Times are µs by one clock, or by several clocks whose error is at most "errorUs":
  {"type":"acquire","lock":"c1/0","client":"c1","resources":["a"],"ttlMs":1000,"atUs":0,"errorUs":1}
  {"type":"acquired","lock":"c1/0","validUs":988000,"atUs":900,"errorUs":1}
Other types: failed, extend (ttlMs), extended and not-extended (validUs), release, released,
write (resource), unknown. An "acquired" may have the lock's "fencingToken": {"counter","attempt"}.
Record the crash of a client as {"type":"crashed","client":"c1","atUs":5000,"errorUs":900}. The client held its locks
until then, less the error.
If machines with different clocks recorded the history, give --clock-error: the largest error of each clock, such as NTP
or PTP reports. A line with a larger error keeps it.
Exits with 0 if it passed, 1 if it is violated, 2 if it is inconclusive.

Examples:
  lockstep verify run.jsonl
  lockstep verify client-1.jsonl client-2.jsonl --clock-error 5ms
  lockstep verify run.jsonl --json`;

/** Defines `verify`. */
export function defineVerify(program: Command, io: Io, finish: Finish): void {
  program
    .command('verify')
    .description('check histories recorded from real clients')
    .argument('<history...>', 'files of JSON lines; all lines of one lock must be in one file')
    .addOption(option('--clock-error <time>', 'least error to assume for the clocks of the clients (0)', parseDuration))
    .option('--json', 'print one JSON object')
    .addHelpText('after', EXAMPLES)
    .action(async (history: string[], flags: VerifyFlags) => {
      const { verify } = await import('./verify.js');
      finish(verify(history, flags, io));
    });
}
