import { type Command, Option } from 'commander';
import { InputError } from '../scenarios/input-error.js';
import type { ReplayFlags } from './flags.js';
import type { Finish, Io } from './io.js';
import { flag, word } from './values.js';

const EXAMPLES = `
Exits with 0 if what the scenario expects is there, and 3 if not; for a schedule that expects
nothing, and with a mitigation on which the scenario says nothing, with 1 if it is violated.

Examples:
  lockstep replay S03
  lockstep replay .lockstep/failures/1-139.json
  lockstep replay S03 --with persistence=always       would it have helped?
  lockstep replay S03 --explain                       what is each piece good for?
  lockstep replay S03 --format json                   the whole trace
  lockstep replay --all                               every scenario, with its variants`;

/** Defines `replay`. */
export function defineReplay(program: Command, io: Io, finish: Finish): void {
  const format = new Option('--format <text|json>', 'a table, or the trace').default('text');
  program
    .command('replay')
    .description('run one schedule again')
    .argument('[scenario]', 'an id of the catalogue or of a found failure, or a file')
    .option('--all', 'the whole catalogue, each scenario with its variants')
    .addOption(format.argParser(flag('--format', word('text', 'json'))))
    .option('--with <mitigation>', 'with this mitigation, as in persistence=always; may be repeated', collect)
    .option('--explain', 'leave out each piece by itself, and say what comes of it')
    .option('--json', 'print one JSON object')
    .addHelpText('after', EXAMPLES)
    .action(async (scenario: string | undefined, flags: ReplayFlags) => {
      if (flags.all) {
        if (scenario !== undefined || flags.with !== undefined)
          throw new InputError('--all replays the catalogue as it is; leave out the scenario and --with');
        const { replayAll } = await import('./replay-all.js');
        finish(replayAll(flags, io));
        return;
      }
      if (scenario === undefined)
        throw new InputError('replay what? Give the id of a scenario (see list), a file, or --all');
      const { replay } = await import('./replay.js');
      finish(replay(scenario, flags, io));
    });
}

function collect(value: string, before: readonly string[] | undefined): string[] {
  return [...(before ?? []), value];
}
