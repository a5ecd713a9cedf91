import { lockstep } from '../cli/testing/in-process.js';

/** The help of every verb, as a page. */
export async function cliReference(): Promise<string> {
  const [first, ...rest] = await helps([]);
  return [
    '# Command line\n',
    'Made from the code by `npm run docs:api`. In a checkout, write `npm run -s lockstep --` for `lockstep`.\n',
    first?.text ?? '',
    ...rest.map(({ name, text }) => `## ${name}\n\n${text}`),
  ].join('\n');
}

interface Help {
  readonly name: string;
  readonly text: string;
}

/** The help of a verb, and of the verbs below it. */
async function helps(words: readonly string[]): Promise<Help[]> {
  const { stdout } = await lockstep([...words, '--help']);
  const own: Help = { name: words.join(' '), text: `\`\`\`text\n${stdout.trimEnd()}\n\`\`\`\n` };
  const at = stdout.indexOf('\nCommands:\n');
  if (at < 0) return [own];
  // The list ends where examples and exit codes begin.
  const list = stdout.slice(at + 1).split('\n\n', 1)[0] ?? '';
  const verbs = [...list.matchAll(/^ {2}([a-z]+)(?: |$)/gm)].map(([, verb = '']) => verb);
  const below: Help[] = [];
  for (const verb of verbs) below.push(...(await helps([...words, verb])));
  return [own, ...below];
}
