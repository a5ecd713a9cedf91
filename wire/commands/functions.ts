import { at, integer, option } from '../arguments.js';
import { type Call, type Command, container, type Handler, type Row } from '../command.js';
import type { Library, LibraryFunction } from '../lua/library.js';
import { libraryOf } from '../lua/shebang.js';
import { Failure, fail, MapReply, OK, type Reply, SetReply, Status } from '../reply.js';
import { matches } from '../text.js';
import { hostFor } from './scripting.js';

/** The library that has a function, and the function. */
function functionCalled(name: string, { instance }: Call): readonly [Library, LibraryFunction] | null {
  const wanted = name.toLowerCase();
  for (const library of instance.libraries.values()) {
    for (const it of library.functions.values()) if (it.name.toLowerCase() === wanted) return [library, it];
  }
  return null;
}

const load: Handler = (argv, call) => {
  const options = argv.slice(2, -1);
  const unknown = options.find((it) => it.toLowerCase() !== 'replace');
  if (unknown !== undefined) throw fail(`Unknown option given: ${unknown}`);
  const code = at(argv, argv.length - 1);
  const { name, body } = libraryOf(code);
  const { libraries } = call.instance;
  const old = libraries.get(name);
  if (old !== undefined && options.length === 0) throw fail(`Library '${name}' already exists`);
  const library = call.instance.machine().addLibrary({ name, code, body });
  for (const it of library.functions.keys()) {
    const owner = functionCalled(it, call)?.[0];
    if (owner === undefined || owner === old) continue;
    call.instance.machine().forget(library);
    throw fail(`Function ${it} already exists`);
  }
  if (old !== undefined) remove(old, call);
  libraries.set(name, library);
  return name;
};

function remove(library: Library, { instance }: Call): void {
  instance.libraries.delete(library.name);
  instance.machine().forget(library);
}

const deleteLibrary: Handler = (argv, call) => {
  const library = call.instance.libraries.get(at(argv, 2));
  if (library === undefined) throw fail('Library not found');
  remove(library, call);
  return OK;
};

const flush: Handler = (argv, call) => {
  if (argv.length > 3)
    throw fail(`unknown subcommand or wrong number of arguments for '${at(argv, 1)}'. Try FUNCTION HELP.`);
  if (argv.length === 3 && !['sync', 'async'].includes(option(argv, 2)))
    throw fail('FUNCTION FLUSH only supports SYNC|ASYNC option');
  for (const library of [...call.instance.libraries.values()]) remove(library, call);
  return OK;
};

function described({ name, code, functions }: Library, withCode: boolean): Reply {
  const list = [...functions.values()].map(
    (it) =>
      new MapReply([
        ['name', it.name],
        ['description', it.description],
        ['flags', new SetReply(it.flags.map((flag) => new Status(flag)))],
      ]),
  );
  const pairs: [string, Reply][] = [
    ['library_name', name],
    ['engine', 'LUA'],
    ['functions', list],
  ];
  if (withCode) pairs.push(['library_code', code]);
  return new MapReply(pairs);
}

const list: Handler = (argv, { instance }) => {
  let [withCode, pattern]: [boolean, string | null] = [false, null];
  for (let i = 2; i < argv.length; i++) {
    const word = option(argv, i);
    if (word === 'withcode' && !withCode) withCode = true;
    else if (word === 'libraryname' && pattern === null) {
      if (i + 1 === argv.length) throw fail('library name argument was not given');
      pattern = at(argv, ++i);
    } else throw fail(`Unknown argument ${at(argv, i)}`);
  }
  return [...instance.libraries.values()]
    .filter(({ name }) => pattern === null || matches(pattern.toLowerCase(), name.toLowerCase()))
    .map((library) => described(library, withCode));
};

const stats: Handler = (_, { instance }) => {
  const libraries = [...instance.libraries.values()];
  const counts = new MapReply([
    ['libraries_count', libraries.length],
    ['functions_count', libraries.reduce((sum, it) => sum + it.functions.size, 0)],
  ]);
  return new MapReply([
    ['running_script', null],
    ['engines', new MapReply([['LUA', counts]])],
  ]);
};

const FUNCTION: Command = container('function', 's', {
  delete: [3, 'ws', deleteLibrary],
  flush: [-2, 'ws', flush],
  kill: [
    2,
    's',
    () => {
      throw new Failure('NOTBUSY No scripts in execution right now.');
    },
  ],
  list: [-2, 's', list],
  load: [-3, 'wms', load],
  stats: [2, 's', stats],
});

const callFunction =
  (isReadOnly: boolean): Handler =>
  (argv, call) => {
    const found = functionCalled(at(argv, 1), call);
    if (found === null) throw fail('Function not found');
    const [library, { name, flags }] = found;
    const count = integer(at(argv, 2), fail('Bad number of keys provided'));
    if (count > argv.length - 3) throw fail("Number of keys can't be greater than number of args");
    if (count < 0) throw fail("Number of keys can't be negative");
    const words = { keys: argv.slice(3, 3 + count), argv: argv.slice(3 + count) };
    const host = hostFor(new Set(flags), isReadOnly, call);
    return call.instance.machine().call(library, words, { host, name });
  };

/** Calling functions. */
export const FUNCTIONS: Readonly<Record<string, Row>> = {
  fcall: [-3, 'sp', callFunction(false)],
  fcall_ro: [-3, 'rs', callFunction(true)],
};

/** What is kept of functions. */
export const FUNCTION_CONTAINERS: readonly Command[] = [FUNCTION];
