import { type Command, Option } from 'commander';
import { InputError } from '../scenarios/input-error.js';
import type { ReplayFlags } from './flags.js';
import type { Finish, Io } from './io.js';
import { ListOption } from './option.js';
import { reporterOption } from './reporters/option.js';
import { flag, word } from './values.js';

const EXAMPLES = `
Exits with 0 if what the scenario expects is there, and 3 if not; for a schedule that expects
nothing, and with a mitigation on which the scenario says nothing, with 1 if it is violated. Fates
that match no message, and faults and locks dated after the end, are named; where they are all that
is wrong, it is inconclusive, and exits with 2.

With --diff, exits with 0, or with 3 if one of the two runs is not what is expected of it.

With --real, the schedule is played on real nodes at a pace at which its simulated verdict stands
whatever a real machine adds to its times, and exits with 0 if the verdicts agree, 3 if they differ,
and 2 if it cannot be played: its margin is below the noise, or the fault is not ours to make.

Examples:
  lockstep replay S03
  lockstep replay .lockstep/failures/1-139.json
  lockstep replay S03 --with persistence=always       would it have helped?
  lockstep replay S03 --with persistence=always --diff
                                                      where do the two runs part?
  lockstep replay S03 --diff S04 --open               two schedules beside each other, as a page
  lockstep replay S03 --explain                       what is each piece good for?
  lockstep replay S03 --open                          a page to look at it, event for event
  lockstep replay S03 --format svg > S03.svg          a picture
  lockstep replay S03 --format json                   the whole trace
  lockstep replay S03 --real                          the same on five redis-server processes
  lockstep replay S03 --real --open                   what was seen of it there, as a page
  lockstep replay --all                               every scenario, with its variants`;

/** Defines `replay`. */
export function defineReplay(program: Command, io: Io, finish: Finish): void {
  const format = new Option(
    '--format <name>',
    'text, html (a report), svg (a picture), mermaid, json (the trace) or perfetto',
  ).default('text');
  program
    .command('replay')
    .description('run one schedule again')
    .argument('[scenario]', 'an id of the catalogue or of a found failure, or a file')
    .option('--all', 'the whole catalogue, each scenario with its variants')
    .addOption(format.argParser(flag('--format', word('text', 'html', 'svg', 'mermaid', 'json', 'perfetto'))))
    .option('--open', 'write the HTML report, and open it')
    .addOption(
      new ListOption(
        '--with <mitigation>',
        'with this mitigation, as in persistence=always; may be repeated',
        (texts) => [...texts],
      ),
    )
    .option('--diff [other]', 'where the run parts from another one, side by side; alone: from itself, --with')
    .option('--explain', 'leave out each piece by itself, and say what happens')
    .option('--real', 'on real Redis nodes, beside the simulator; own processes of redis-server or valkey-server')
    .addOption(reporterOption())
    .option('--json', 'print one JSON object')
    .addHelpText('after', EXAMPLES)
    .action(async (scenario: string | undefined, flags: ReplayFlags) => {
      if (flags.real && (flags.with !== undefined || flags.explain || !['text', 'html'].includes(flags.format)))
        throw new InputError(
          '--real plays a schedule as it is, and tells it as text, as html or with --json; leave out --with, --explain and other formats',
        );
      if (flags.diff !== undefined) {
        refuseOdd(flags);
        if (scenario === undefined) throw new InputError('replay what? --diff compares it with another one');
        const { replayDiff } = await import('./replay-diff.js');
        finish(replayDiff(scenario, flags, io));
        return;
      }
      if (flags.reporter !== undefined && (!flags.all || flags.real))
        throw new InputError('--reporter: it tells of many schedules in the simulator; add --all, or leave it out');
      if (flags.all) {
        if (scenario !== undefined || flags.with !== undefined)
          throw new InputError('--all replays the catalogue as it is; leave out the scenario and --with');
        if (flags.real) {
          const { replayAllReal } = await import('./replay-real.js');
          finish(await replayAllReal(flags, io));
          return;
        }
        const { replayAll } = await import('./replay-all.js');
        finish(replayAll(flags, io));
        return;
      }
      if (scenario === undefined)
        throw new InputError('replay what? Give the id of a scenario (see list), a file, or --all');
      if (flags.real) {
        const { replayReal } = await import('./replay-real.js');
        finish(await replayReal(scenario, flags, io));
        return;
      }
      const { replay } = await import('./replay.js');
      finish(replay(scenario, flags, io));
    });
}

/** What says nothing about two runs. */
function refuseOdd(flags: ReplayFlags): void {
  if (flags.diff === true && flags.with === undefined)
    throw new InputError(
      '--diff compares with another schedule, as in --diff S04, or with itself under a mitigation, as in --with persistence=always --diff',
    );
  if (flags.diff !== true && flags.with !== undefined)
    throw new InputError('--diff compares with a schedule or, alone, with a mitigation; leave out one of the two');
  if (flags.all || flags.real || flags.explain || !['text', 'html'].includes(flags.format))
    throw new InputError(
      '--diff is told as text, as html or with --json; leave out --all, --real, --explain and other formats',
    );
}
