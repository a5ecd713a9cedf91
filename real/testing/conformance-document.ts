import { CASES } from './conformance-cases.js';

/** The page on where ioredis-mock differs from a server, from the answers of both (`rawAnswers`). */
export function conformanceDocument(real: readonly string[], mocked: readonly string[]): string {
  const rows = real.flatMap((line, i) => {
    const [commands = '', answers = ''] = line.split('  ⇒  ');
    const imitated = mocked[i]?.split('  ⇒  ')[1] ?? '';
    return answers === imitated ? [] : [`| ${code(commands)} | ${code(answers)} | ${code(imitated)} |`];
  });
  return `# Conformance

A test compares the simulated node with real servers (redis-server, and valkey-server if it is installed), on the commands that
locks send: ${CASES.length} fixed cases, 100 000 random commands in sequences with stepped clocks, and 50 000 commands on keys that live for a few
milliseconds. There is no difference. \`npm run -s conformance\` repeats the comparison and prints this page.

ioredis-mock answers as a server does in every random sequence of the lock's own commands. So the interface of the lock can be tested on
it. It is not the simulated node: all its nodes share one clock, and keys expire a millisecond early. Of ${real.length} sequences of similar
commands, it answers these ${rows.length} differently. Errors are shown by their code.

| commands | server | ioredis-mock |
|---|---|---|
${rows.join('\n')}
`;
}

function code(text: string): string {
  return `\`${text.replaceAll('|', '\\|')}\``;
}
