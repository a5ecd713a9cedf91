import { type Command, Option } from 'commander';
import { SHELLS, type Shell } from './flags.js';
import type { Finish, Io } from './io.js';
import { flag, word } from './values.js';

const EXAMPLES = `
The script completes verbs, flags and ids of scenarios for a command named lockstep.

Examples:
  lockstep completion bash      in ~/.bashrc: eval "$(lockstep completion bash)"
  lockstep completion zsh       in ~/.zshrc, after compinit: eval "$(lockstep completion zsh)"
  lockstep completion fish      lockstep completion fish > ~/.config/fish/completions/lockstep.fish`;

/** Defines `completion`. */
export function defineCompletion(program: Command, io: Io, finish: Finish): void {
  program
    .command('completion')
    .description('print a shell completion script')
    .argument('<shell>', SHELLS.join(', '), flag('completion', word(...SHELLS)))
    .addOption(new Option('--json', 'print one JSON object').hideHelp())
    .addHelpText('after', EXAMPLES)
    .action(async (shell: Shell, { json }: { readonly json?: boolean }) => {
      const { completion } = await import('./completion.js');
      finish(completion(shell, program, json === true, io));
    });
}
