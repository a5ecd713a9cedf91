import { fail } from '../reply.js';
import { splitWords } from '../text.js';

/** A script without its first line, if that says how it is to be run. */
interface Script {
  /** The text that Lua compiles; the line feed of the first line stays. */
  readonly body: string;
  /** What the first line asks for, `null` where there is none. */
  readonly flags: ReadonlySet<string> | null;
}

const FLAGS: ReadonlySet<string> = new Set([
  'no-writes',
  'allow-oom',
  'allow-stale',
  'no-cluster',
  'allow-cross-slot-keys',
]);

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
      if (!FLAGS.has(flag)) throw fail(`Unexpected flag in script shebang: ${flag}`);
      flags.add(flag);
    }
  }
  return { body: text.slice(end), flags };
}
