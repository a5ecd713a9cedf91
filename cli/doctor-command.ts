import type { Command } from 'commander';
import type { DoctorFlags } from './flags.js';
import type { Finish, Io } from './io.js';

const EXAMPLES = `
Nothing but Node is needed to simulate, search, explore and replay. LOCKSTEP_REQUIRE=redis,docker,browser,spin,faketime
names what must be there: exits with 2 if something of it is not, or Node is too old.

Examples:
  lockstep doctor
  lockstep doctor --json`;

/** Defines `doctor`. */
export function defineDoctor(program: Command, io: Io, finish: Finish): void {
  program
    .command('doctor')
    .description('what was found on this machine, and what each absence costs')
    .option('--json', 'print one JSON object')
    .addHelpText('after', EXAMPLES)
    .action(async (flags: DoctorFlags) => {
      const { doctor } = await import('./doctor.js');
      finish(await doctor(flags, io));
    });
}
