import { type Command, Option } from 'commander';
import type { MutantsFlags } from './flags.js';
import type { Finish, Io } from './io.js';
import { flag, whole } from './values.js';

const MOST_RUNS = 1_000_000_000;
const MOST_SEEDS = 1_000;

const EXAMPLES = `
Each bug is one changed line of the policy or of the cluster. It is hunted once for each seed; a search
that does not catch it counts as --runs histories. Exits with 4 if a bug gets away in half of its searches.

Examples:
  lockstep mutants
  lockstep mutants --seeds 1 --runs 1000`;

/** Defines `mutants`. */
export function defineMutants(program: Command, io: Io, finish: Finish): void {
  const option = (flags: string, description: string, most: number): Option => {
    const made = new Option(flags, description);
    return made.argParser(flag(made.long ?? flags, whole(1, most)));
  };
  program
    .command('mutants')
    .description('hunt planted bugs, and say how soon the search catches each')
    .addOption(option('--runs <n>', 'schedules of one search at most (10000)', MOST_RUNS))
    .addOption(option('--seeds <n>', 'searches for each bug (15)', MOST_SEEDS))
    .option('--json', 'print one JSON object')
    .addHelpText('after', EXAMPLES)
    .action(async (flags: MutantsFlags) => {
      const { mutants } = await import('./mutants.js');
      finish(await mutants(flags, io));
    });
}
