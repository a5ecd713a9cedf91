import { type Command, Option } from 'commander';
import { InputError } from '../scenarios/input-error.js';
import type { LibrariesFlags } from './flags.js';
import type { Finish, Io } from './io.js';
import { listOption } from './option.js';
import { flag, whole, word } from './values.js';
import { workersOption } from './workers.js';

const MOST_NODES = 31;
const MOST_RUNS = 1_000_000;

const EXAMPLES = `
Each library runs unmodified inside the simulated world, once for each class of faults, in a fresh
worker. A cell says in how many of its runs something was violated. These are shares of the schedules
that this search draws, not rates in production. A violation is "inside" if its schedule keeps to what
Redlock assumes. Counterexamples go to .lockstep/libraries, each with the page of its recorded
run. Exits with 1 if a library of your own (--file) is violated inside.

Examples:
  lockstep libraries
  lockstep libraries --only redlock4,redlock5 --fault-classes spikes-reordering,even --runs 200
  lockstep libraries --file ./my-lock.ts
  lockstep libraries --file ./my-lock.ts --nodes 1     a lock that is made for a single node
  lockstep libraries --pair redlock4,redis-semaphore   may both run at once, as in a migration?
  lockstep libraries --replay .lockstep/libraries/redlock5-even-hang.json --only redlock5
  lockstep libraries --replay .lockstep/libraries/redlock5-even-hang.json --only redlock5 --open
                                                       what was recorded of it, as a page`;

function words(text: string): string[] {
  return text.split(',').map((it) => it.trim());
}

/** Defines `libraries`. */
export function defineLibraries(program: Command, io: Io, finish: Finish): void {
  const option = (flags: string, description: string, most: number): Option => {
    const made = new Option(flags, description);
    return made.argParser(flag(made.long ?? flags, whole(1, most)));
  };
  program
    .command('libraries')
    .description('test npm lock libraries, or your own, in the simulator')
    .addOption(listOption('--only <ids>', 'only these, with commas between (all)', words))
    .option('--file <file>', 'a lock of your own: a module that exports makeLock({ nodes })')
    .addOption(
      listOption('--pair <old,joining>', 'two libraries beside each other on one lock, as in a migration', words),
    )
    .option('--pairs', 'all libraries beside each other, two by two')
    .option('--same-key', 'of pairs: give one of the two the key of the other for a name')
    .addOption(listOption('--fault-classes <ids>', 'only these classes of faults, with commas between (all)', words))
    .addOption(option('--runs <n>', 'schedules for each cell (50)', MOST_RUNS))
    .option('--seed <text>', 'random seed (lockstep)')
    .addOption(option('--nodes <n>', 'nodes of each run: 1 for a lock that is made for one (5)', MOST_NODES))
    .addOption(workersOption())
    .option('--no-shrink', 'do not shrink counterexamples, nor write them')
    .option('--replay <file>', 'show a schedule with a library instead')
    .addOption(
      new Option('--format <name>', 'with --replay: text, or html (a page of the recorded run)').argParser(
        flag('--format', word('text', 'html')),
      ),
    )
    .option('--open', 'with --replay: write the page of the recorded run, and open it')
    .option('--auto-extend', 'with --replay: locks extend themselves')
    .option('--json', 'print one JSON object')
    .addHelpText('after', EXAMPLES)
    .action(async (flags: LibrariesFlags) => {
      if (flags.replay === undefined && (flags.open || flags.format !== undefined))
        throw new InputError('--open and --format are about one schedule; name it, as in --replay <file>');
      const odd =
        flags.pair === undefined && !flags.pairs
          ? flags.sameKey && '--same-key'
          : flags.faultClasses && '--fault-classes';
      if (odd) throw new InputError(`${odd} has no effect on what is asked for; leave it out`);
      if (flags.replay !== undefined && flags.nodes !== undefined)
        throw new InputError('--nodes: a schedule says it for itself; leave it out with --replay');
      const { libraries } = await import('./libraries.js');
      finish(await libraries(flags, io));
    });
}
