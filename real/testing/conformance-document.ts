import { CASES } from './conformance-cases.js';

/** What ioredis-mock answers in other ways than a server, as a document; of both the answers of `rawAnswers`. */
export function conformanceDocument(real: readonly string[], mocked: readonly string[]): string {
  const rows = real.flatMap((line, i) => {
    const [commands = '', answers = ''] = line.split('  ⇒  ');
    const imitated = mocked[i]?.split('  ⇒  ')[1] ?? '';
    return answers === imitated ? [] : [`| ${code(commands)} | ${code(answers)} | ${code(imitated)} |`];
  });
  return `# Conformance

The simulated node is compared with real servers (redis-server, and valkey-server where it is installed), on the commands that
locks send: ${CASES.length} fixed cases, 100 000 random commands in sequences with stepped clocks, and 50 000 commands on keys
that live for a few milliseconds. It differs nowhere. \`npm run -s conformance\` does it again and prints this.

ioredis-mock does what a server does in every random sequence of the lock's own commands, which is why the surface of
the lock can be tested on it. It is not the simulated node: all its nodes share one clock, keys go a millisecond early, and of
${real.length} sequences of commands around those of a lock it answers these ${rows.length} in other ways. Errors are told by their code.

| commands | server | ioredis-mock |
|---|---|---|
${rows.join('\n')}
`;
}

function code(text: string): string {
  return `\`${text.replaceAll('|', '\\|')}\``;
}
