import type { Command, Option } from 'commander';
import { loadCatalogue } from '../scenarios/catalogue.js';
import { Exit, type ExitCode } from './exit-codes.js';
import type { Shell } from './flags.js';
import { type Io, writeJson } from './io.js';

/** What can be completed after a verb. */
interface Verb {
  readonly name: string;
  readonly description: string;
  readonly flags: readonly Flag[];
  /** Whether a scenario may follow. */
  readonly scenario: boolean;
}

interface Flag {
  /** With its dashes. */
  readonly name: string;
  readonly description: string;
  readonly takesValue: boolean;
}

/** Prints the script for a shell, made of what the verbs define. */
export function completion(shell: Shell, program: Command, json: boolean, io: Io): ExitCode {
  const verbs = program.commands.map(verbOf);
  const script = SCRIPTS[shell](
    verbs,
    loadCatalogue().map(({ id }) => id),
  );
  if (json) writeJson(io, 'lockstep.completion/1', { shell, script });
  else io.stdout.write(script);
  return Exit.ok;
}

function verbOf(command: Command): Verb {
  const flags = command.options.filter(({ hidden }) => !hidden).map(flagOf);
  return {
    name: command.name(),
    description: command.description(),
    flags: [...flags, { name: '--help', description: 'print help', takesValue: false }],
    scenario: command.registeredArguments.some((it) => it.name() === 'scenario'),
  };
}

function flagOf({ long, short, flags, description, required, optional }: Option): Flag {
  return { name: long ?? short ?? flags, description, takesValue: required || optional };
}

type Script = (verbs: readonly Verb[], scenarios: readonly string[]) => string;

const SCRIPTS: Readonly<Record<Shell, Script>> = { bash, zsh, fish };

function wordsAfter({ flags, scenario }: Verb, scenarios: readonly string[]): string {
  return [...flags.map(({ name }) => name), ...(scenario ? scenarios : [])].join(' ');
}

/** Where a flag wants a value, and where nothing fits, file names are offered. */
function bash(verbs: readonly Verb[], scenarios: readonly string[]): string {
  const names = verbs.map(({ name }) => name);
  const valued = [...new Set(verbs.flatMap(({ flags }) => flags.filter((it) => it.takesValue).map((it) => it.name)))];
  const cases = verbs.map((verb) => `    ${verb.name}) words="${wordsAfter(verb, scenarios)}" ;;`);
  return `_lockstep() {
  local current="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD-1]}" verb="" word words
  COMPREPLY=()
  case "$before" in
    ${valued.join('|')}) return ;;
  esac
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$word" in
      ${names.join('|')}) verb="$word"; break ;;
    esac
  done
  case "$verb" in
${cases.join('\n')}
    *) words="${names.join(' ')} --help --version" ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _lockstep lockstep
`;
}

function zsh(verbs: readonly Verb[], scenarios: readonly string[]): string {
  // Of a description in an option of _arguments, brackets and colons would end it.
  const plain = (text: string): string => text.replaceAll(/[[\]:]/g, ' ').replaceAll("'", "'\\''");
  const cases = verbs.map((verb) => {
    const flags = verb.flags.map(
      ({ name, description, takesValue }) => `'${name}[${plain(description)}]${takesValue ? ':value:_files' : ''}'`,
    );
    const rest = verb.scenario ? `'*:scenario:_lockstep_scenarios'` : `'*:file:_files'`;
    return `    ${verb.name}) _arguments ${[...flags, rest].join(' \\\n      ')} ;;`;
  });
  const described = verbs.map(({ name, description }) => `'${name}:${plain(description)}'`);
  return `#compdef lockstep
_lockstep_scenarios() {
  _alternative 'scenarios:scenario:(${scenarios.join(' ')})' 'files:file:_files'
}
_lockstep() {
  local -a verbs
  verbs=(${described.join(' ')})
  if (( CURRENT == 2 )); then
    _describe verb verbs
    return
  fi
  local verb=$words[2]
  shift words
  (( CURRENT-- ))
  case $verb in
${cases.join('\n')}
  esac
}
# As a file of $fpath this is the body of the function itself; sourced, it has to be registered.
if [ "$funcstack[1]" = "_lockstep" ]; then
  _lockstep "$@"
else
  compdef _lockstep lockstep
fi
`;
}

function fish(verbs: readonly Verb[], scenarios: readonly string[]): string {
  const quoted = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
  const lines = verbs.flatMap((verb) => {
    const after = `complete -c lockstep -n '__fish_seen_subcommand_from ${verb.name}'`;
    return [
      `complete -c lockstep -n __fish_use_subcommand -a ${verb.name} -d ${quoted(verb.description)}`,
      ...verb.flags.map(
        ({ name, description, takesValue }) =>
          `${after} -l ${name.replace(/^--/, '')} -d ${quoted(description)}${takesValue ? ' -r' : ''}`,
      ),
      ...(verb.scenario ? [`${after} -a ${quoted(scenarios.join(' '))}`] : []),
    ];
  });
  // A verb comes first, and is no file.
  return `complete -c lockstep -n __fish_use_subcommand -f\n${lines.join('\n')}\n`;
}
