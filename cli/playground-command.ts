import type { Command } from 'commander';
import type { PlaygroundFlags } from './flags.js';
import type { Finish, Io } from './io.js';

const EXAMPLES = `
Writes one HTML file, which needs no server and no network. Open it from the disk, or put the folder on any static
host. On the page, choose a system and its faults, search for a violation, try mitigations, edit schedules, step
through them by hand, and measure maps. The address of the page contains its state, so you can share it.

Examples:
  lockstep playground                        writes playground/index.html
  lockstep playground public --open          writes public/index.html and opens it
  lockstep playground --at S03               prints the address that shows a scenario
  lockstep playground --at redlock-php       prints the address of a search with a client profile
  lockstep playground --at S03 --step --open  opens it for stepping by hand
  lockstep playground --at failing.json      prints the address that contains this schedule`;

/** Defines `playground`. */
export function definePlayground(program: Command, io: Io, finish: Finish): void {
  program
    .command('playground')
    .description('build a page to try Lockstep in a browser, without a server')
    .argument('[folder]', 'folder to write (default: playground)')
    .option('--at <scenario|file|profile>', 'print the address that shows this scenario, file or profile')
    .option('--step', 'with --at: for stepping by hand')
    .option('--open', 'open the page in a browser')
    .option('--json', 'print one JSON object')
    .addHelpText('after', EXAMPLES)
    .action(async (folder: string | undefined, flags: PlaygroundFlags) => {
      const { playground } = await import('./playground.js');
      finish(await playground(folder, flags, io));
    });
}
