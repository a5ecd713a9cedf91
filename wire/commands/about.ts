import { at, option } from '../arguments.js';
import { type Call, type Command, container, type Handler } from '../command.js';
import { fail, type Reply, SetReply, Status, SYNTAX } from '../reply.js';
import { matches, parseInteger } from '../text.js';

/** Where those say how many keys they have whose keys have no fixed places; the keys follow. */
const COUNTED: Readonly<Record<string, number>> = {
  ...{ blmpop: 2, bzmpop: 2, eval: 2, eval_ro: 2, evalsha: 2, evalsha_ro: 2, fcall: 2, fcall_ro: 2 },
  ...{ lmpop: 1, sintercard: 1, zdiff: 1, zinter: 1, zintercard: 1, zmpop: 1, zunion: 1 },
  ...{ zdiffstore: 2, zinterstore: 2, zunionstore: 2 },
};

const FLAG_NAMES: Readonly<Record<string, string>> = { w: 'write', r: 'readonly', m: 'denyoom', s: 'noscript' };

type Commands = ReadonlyMap<string, Command>;

function isKnown({ since }: Command, { instance }: Call): boolean {
  return since === undefined || instance.has(since);
}

/** The command of a name, with its subcommand after `|`. */
function named(commands: Commands, name: string): Command | undefined {
  const [first = '', second, ...more] = name.toLowerCase().split('|');
  const command = commands.get(first);
  return second === undefined ? command : more.length > 0 ? undefined : command?.subcommands?.get(second);
}

function described(command: Command, call: Call): Reply {
  const { name, arity, flags, keys, subcommands } = command;
  const names = [...flags].flatMap((it) => FLAG_NAMES[it] ?? []);
  if (name in COUNTED) names.push('movablekeys');
  const below = [...(subcommands?.values() ?? [])].filter((it) => isKnown(it, call));
  return [
    ...[name, arity, new SetReply(names.map((it) => new Status(it))), ...keys],
    ...[new SetReply([]), [], [], below.map((it) => described(it, call))],
  ];
}

/** The keys of a command with its arguments, `null` where these are not right. */
function keysOf({ name, keys }: Command, argv: readonly string[]): string[] | null {
  const [first, last, step] = keys;
  const fixed: string[] = [];
  if (first > 0) {
    const end = last < 0 ? argv.length + last : last;
    for (let i = first; i <= end; i += step) fixed.push(at(argv, i));
  }
  const place = COUNTED[name];
  if (place === undefined) return fixed;
  const count = Number(parseInteger(at(argv, place)) ?? 0);
  if (count <= 0 || place + count >= argv.length) return null;
  return [...fixed, ...argv.slice(place + 1, place + 1 + count)];
}

function getKeys(commands: Commands, words: readonly string[]): Reply {
  const found = commands.get(at(words, 0).toLowerCase());
  const command = found?.subcommands === undefined ? found : found.subcommands.get(option(words, 1));
  if (command === undefined) throw fail('Invalid command specified');
  if (command.keys[0] === 0 && !(command.name in COUNTED)) throw fail('The command has no key arguments');
  const { arity } = command;
  if (arity > 0 ? words.length !== arity : words.length < -arity)
    throw fail('Invalid number of arguments specified for command');
  const keys = keysOf(command, words);
  if (keys !== null) return keys;
  // These may do without any.
  if (/^(eval|fcall)/.test(command.name)) return [];
  throw fail('Invalid arguments specified for command');
}

function list(commands: Commands, argv: readonly string[], call: Call): Reply {
  const [by, kind] = [option(argv, 2), option(argv, 3)];
  const isPlain = argv.length === 2;
  if (!isPlain && (argv.length !== 5 || by !== 'filterby' || !['module', 'aclcat', 'pattern'].includes(kind)))
    throw SYNTAX;
  const all = [...commands.values()].flatMap((it) => [it, ...(it.subcommands?.values() ?? [])]);
  const names = all.filter((it) => isKnown(it, call)).map(({ name }) => name);
  if (isPlain) return names;
  return kind === 'pattern' ? names.filter((name) => matches(at(argv, 4).toLowerCase(), name)) : [];
}

/** `COMMAND`: what the commands of a server are, as far as it needs to know it itself: no categories, no documents. */
export function commandAbout(commands: Commands): Command {
  const all: Handler = (_, call) =>
    [...commands.values()].filter((it) => isKnown(it, call)).map((it) => described(it, call));
  const info: Handler = (argv, call) => {
    if (argv.length === 2) return all(argv, call);
    return argv.slice(2).map((name) => {
      const command = named(commands, name);
      return command !== undefined && isKnown(command, call) ? described(command, call) : null;
    });
  };
  const rows = {
    count: [
      2,
      '',
      (_: readonly string[], call: Call) => [...commands.values()].filter((it) => isKnown(it, call)).length,
    ],
    getkeys: [-4, '', (argv: readonly string[]) => getKeys(commands, argv.slice(2))],
    info: [-2, '', info],
    list: [-2, '', (argv: readonly string[], call: Call) => list(commands, argv, call)],
  } as const;
  return { ...container('command', '', rows), arity: -1, handler: all };
}
