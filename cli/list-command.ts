import type { Command } from 'commander';
import type { ListFlags } from './flags.js';
import type { Finish, Io } from './io.js';

/** Defines `list`. */
export function defineList(program: Command, io: Io, finish: Finish): void {
  program
    .command('list')
    .description('list scenarios with their verdicts, or client profiles')
    .option('--profiles', 'list the client profiles: the policy of each known client, and its source')
    .option('--json', 'print one JSON object')
    .addHelpText('after', '\nExamples:\n  lockstep list\n  lockstep list --profiles\n  lockstep replay S03')
    .action(async (flags: ListFlags) => {
      const { list } = await import('./list.js');
      finish(list(flags, io));
    });
}
