import type { Command } from 'commander';
import type { PlaygroundFlags } from './flags.js';
import type { Finish, Io } from './io.js';

const EXAMPLES = `
One HTML file, which needs no server and no network: open it from the disk, or put the folder on any host of
static files. In it a system and its faults are chosen, a search looks for a violation, mitigations are tried,
schedules are edited and stepped through by hand, and maps are measured. What is on the page stands in its
address, to be passed on.

Examples:
  lockstep playground                        writes playground/index.html
  lockstep playground public --open          writes public/index.html and opens it
  lockstep playground --at S03               prints the address at which it shows a scenario
  lockstep playground --at redlock-php       the same for a search with a client profile
  lockstep playground --at S03 --step --open  opens it where one chooses what happens next
  lockstep playground --at failing.json      the same for a schedule, which the address holds`;

/** Defines `playground`. */
export function definePlayground(program: Command, io: Io, finish: Finish): void {
  program
    .command('playground')
    .description('build a page to try Lockstep in, without a server')
    .argument('[folder]', 'where it is written (default: playground)')
    .option('--at <scenario|file|profile>', 'print the address that shows this one')
    .option('--step', 'with --at: where it is stepped through by hand')
    .option('--open', 'open it in a browser')
    .option('--json', 'print one JSON object')
    .addHelpText('after', EXAMPLES)
    .action(async (folder: string | undefined, flags: PlaygroundFlags) => {
      const { playground } = await import('./playground.js');
      finish(await playground(folder, flags, io));
    });
}
