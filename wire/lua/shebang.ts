import { fail } from '../reply.js';
import { splitWords } from '../text.js';
import { BAD_NAME, NAME, SCRIPT_FLAGS } from './library.js';

/** A script without its first line, if that says how it is to be run. */
interface Script {
  /** The text that Lua compiles; the line feed of the first line stays. */
  readonly body: string;
  /** What the first line asks for, `null` where there is none. */
  readonly flags: ReadonlySet<string> | null;
}

/** Takes the line `#!lua flags=…` off a script. Throws where it is none that Redis knows. */
export function scriptOf(text: string): Script {
  if (!text.startsWith('#!')) return { body: text, flags: null };
  const end = text.indexOf('\n');
  if (end < 0) throw fail('Invalid script shebang');
  const words = splitWords(text.slice(0, end));
  if (words === null || words.length === 0) throw fail('Invalid engine in script shebang');
  const [engine = '', ...options] = words;
  if (engine !== '#!lua') throw fail(`Unexpected engine in script shebang: ${engine}`);
  const flags = new Set<string>();
  for (const option of options) {
    if (!option.startsWith('flags=')) throw fail(`Unknown lua shebang option: ${option}`);
    for (const flag of option.slice('flags='.length).split(',')) {
      if (!SCRIPT_FLAGS.includes(flag)) throw fail(`Unexpected flag in script shebang: ${flag}`);
      flags.add(flag);
    }
  }
  return { body: text.slice(end), flags };
}

/** A library without its first line, and its name. */
interface LibraryText {
  readonly name: string;
  readonly body: string;
}

/** Takes the line `#!lua name=…` off a library. Throws where it is none that Redis knows. */
export function libraryOf(text: string): LibraryText {
  if (!text.startsWith('#!')) throw fail('Missing library metadata');
  const end = text.indexOf('\n');
  const words = end < 0 ? null : splitWords(text.slice(0, end));
  if (words === null || words.length === 0) throw fail('Invalid library metadata');
  const [engine = '', ...parts] = words;
  let name: string | null = null;
  for (const part of parts) {
    if (!/^name=/i.test(part)) throw fail(`Invalid metadata value given: ${part}`);
    if (name !== null) throw fail('Invalid metadata value, name argument was given multiple times');
    name = part.slice('name='.length);
  }
  if (name === null) throw fail('Library name was not given');
  if (!NAME.test(name)) throw fail(BAD_NAME);
  if (engine.slice(2).toLowerCase() !== 'lua') throw fail(`Engine '${engine.slice(2)}' not found`);
  return { name, body: text.slice(end) };
}
