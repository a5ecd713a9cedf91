import { type Command, Option } from 'commander';
import { InputError } from '../scenarios/input-error.js';
import type { ReplayFlags } from './flags.js';
import type { Finish, Io } from './io.js';
import { ListOption } from './option.js';
import { reporterOption } from './reporters/option.js';
import { flag, word } from './values.js';

const EXAMPLES = `
Exits with 0 if the scenario gives its expected verdict, and with 3 if not. Without an expected verdict
(a schedule without one, or a mitigation that the scenario does not mention), a violation exits with 1.
Message fates that match no message, and faults and locks after the end, are reported. If nothing else
is wrong, the verdict is inconclusive, and the exit code 2.

With --diff, exits with 0, or with 3 if one of the two runs does not give its expected verdict.

With --real, the schedule runs on real nodes, at a time scale at which its simulated verdict survives
the timing noise of a real machine. Exits with 0 if the verdicts agree, with 3 if they differ, and with
2 if the schedule cannot be replayed: its margin is below the noise, or the fault cannot be injected.

Examples:
  lockstep replay S03
  lockstep replay .lockstep/failures/1-139.json
  lockstep replay S03 --with persistence=always       with a mitigation
  lockstep replay S03 --with persistence=always --diff
                                                      where do the two runs diverge?
  lockstep replay S03 --diff S04 --open               two schedules side by side, as a page
  lockstep replay S03 --explain                       which parts of the schedule are needed?
  lockstep replay S03 --open                          a page with each event
  lockstep replay S03 --format svg > S03.svg          a picture
  lockstep replay S03 --format json                   the whole trace
  lockstep replay S03 --real                          the same on five redis-server processes
  lockstep replay S03 --real --open                   the observed run as a page
  lockstep replay --all                               every scenario, with its variants`;

/** Defines `replay`. */
export function defineReplay(program: Command, io: Io, finish: Finish): void {
  const format = new Option(
    '--format <name>',
    'output: text, html (a report), svg (a picture), mermaid, json (the trace) or perfetto',
  ).default('text');
  program
    .command('replay')
    .description('re-run a scenario or a saved failure')
    .argument('[scenario]', 'id of a scenario or of a found failure, or a file')
    .option('--all', 'replay the whole catalogue, each scenario with its variants')
    .addOption(format.argParser(flag('--format', word('text', 'html', 'svg', 'mermaid', 'json', 'perfetto'))))
    .option('--open', 'write the HTML report, and open it')
    .addOption(
      new ListOption(
        '--with <mitigation>',
        'apply this mitigation, as in persistence=always; may be repeated',
        (texts) => [...texts],
      ),
    )
    .option('--diff [other]', 'show where the run diverges from another one, or (alone) from itself under --with')
    .option('--explain', 'remove each part of the schedule in turn, and report the verdict')
    .option('--real', 'also replay on real Redis nodes: own processes of redis-server or valkey-server')
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
