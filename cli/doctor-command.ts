import type { Command } from 'commander';
import type { DoctorFlags } from './flags.js';
import type { Finish, Io } from './io.js';

const EXAMPLES = `
Simulation, search, exploration and replay need only Node. LOCKSTEP_REQUIRE=redis,docker,browser,spin,faketime lists
dependencies that must be present: exits with 2 if one is missing, or if Node is too old.

Examples:
  lockstep doctor
  lockstep doctor --json`;

/** Defines `doctor`. */
export function defineDoctor(program: Command, io: Io, finish: Finish): void {
  program
    .command('doctor')
    .description('check for optional dependencies, and say what needs them')
    .option('--json', 'print one JSON object')
    .addHelpText('after', EXAMPLES)
    .action(async (flags: DoctorFlags) => {
      const { doctor } = await import('./doctor.js');
      finish(await doctor(flags, io));
    });
}
