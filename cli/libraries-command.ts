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
Each library runs unmodified in the simulated world, once per fault class, in a fresh worker. A cell says how many of
its schedules violate a property. These are shares of the generated schedules, not rates in production. A violation is
"inside" if its schedule keeps the assumptions of Redlock. Counterexamples go to .lockstep/libraries, each with a page
of its recorded run. Exits with 1 if a library of your own (--file) has a violation inside.

Examples:
  lockstep libraries
  lockstep libraries --only redlock4,redlock5 --fault-classes spikes-reordering,even --runs 200
  lockstep libraries --file ./my-lock.ts
  lockstep libraries --file ./my-lock.ts --nodes 1     a lock for a single node
  lockstep libraries --pair redlock4,redis-semaphore   may both run at once, as in a migration?
  lockstep libraries --replay .lockstep/libraries/redlock5-even-hang.json --only redlock5
  lockstep libraries --replay .lockstep/libraries/redlock5-even-hang.json --only redlock5 --open
                                                       the recorded run as a page`;

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
    .addOption(listOption('--only <ids>', 'only these libraries, separated by commas (all)', words))
    .option('--file <file>', 'a lock of your own: a module that exports makeLock({ nodes })')
    .addOption(listOption('--pair <old,joining>', 'two libraries together on one lock, as in a migration', words))
    .option('--pairs', 'all pairs of libraries')
    .option('--same-key', 'with pairs: make both libraries use one key')
    .addOption(listOption('--fault-classes <ids>', 'only these fault classes, separated by commas (all)', words))
    .addOption(option('--runs <n>', 'number of schedules per cell (50)', MOST_RUNS))
    .option('--seed <text>', 'random seed (lockstep)')
    .addOption(option('--nodes <n>', 'number of nodes: 1 for a lock for one node (5)', MOST_NODES))
    .addOption(workersOption())
    .option('--no-shrink', 'neither shrink nor write counterexamples')
    .option('--replay <file>', 'replay a schedule with a library instead')
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
