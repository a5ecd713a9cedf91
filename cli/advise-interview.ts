import { createInterface } from 'node:readline/promises';
import { parseSystem } from '../advise/parse-system.js';
import { type Description, SUPERVISORS } from '../advise/system.js';
import { InputError } from '../scenarios/input-error.js';
import { type Io, say } from './io.js';

/** One question: where its answer goes, and what is taken for an empty one. */
interface Question {
  readonly path: readonly [string] | readonly [string, string];
  readonly text: string;
  readonly usual: string | ((description: Description) => string);
  /** What an answer stands for in a description. Default: its text. */
  readonly mean?: (answer: string) => unknown;
}

const yes = (answer: string): boolean => /^y(es)?$/i.test(answer);

const QUESTIONS: readonly Question[] = [
  { path: ['nodes', 'count'], text: 'How many Redis nodes?', usual: '3', mean: Number },
  {
    path: ['nodes', 'persistence'],
    text: 'What do they write to disk: none, rdb, everysec, always?',
    usual: 'everysec',
  },
  { path: ['nodes', 'supervisor'], text: `What restarts them: ${SUPERVISORS.join(', ')}?`, usual: 'systemd' },
  { path: ['nodes', 'restart'], text: 'How soon may a stopped node serve again at the earliest?', usual: '0s' },
  {
    path: ['clocks', 'steps'],
    text: 'By how much may people set a clock during a lock (0s, 100ms; any if a time service steps it)?',
    usual: '100ms',
  },
  { path: ['pauses', 'process'], text: 'How long may a client be paused (GC, throttling)?', usual: '500ms' },
  {
    path: ['client', 'library'],
    text: 'Which client (reference, redsync-4, redlock-py, node-redlock-4, …)?',
    usual: 'reference',
  },
  {
    path: ['network', 'reordering'],
    text: 'Does it use several connections to a node, as a pool does (y/n)?',
    usual: (description) => (parseSystem(description).network.reordering ? 'y' : 'n'),
    mean: yes,
  },
  { path: ['client', 'ttl'], text: 'Which TTL?', usual: '10s' },
  { path: ['work', 'longest'], text: 'How long does the work under the lock take at most?', usual: '3s' },
  {
    path: ['resource', 'checksToken'],
    text: 'Can what it writes to compare fencing tokens (y/n)?',
    usual: 'n',
    mean: yes,
  },
];

/**
 * Asks for a system on the terminal, question by question; `null` if the person has had enough (Ctrl-C, Ctrl-D). The terminal
 * stays as it is, so that its own keys edit a line.
 */
export async function interview(io: Io): Promise<Description | null> {
  const { stdin } = io;
  if (stdin === undefined) return null;
  const lines = createInterface({ input: stdin, terminal: false });
  const stopped = new AbortController();
  const stop = (): void => stopped.abort();
  lines.on('close', stop);
  io.signal.addEventListener('abort', stop);
  const ask: Ask = (text) => {
    io.stderr.write(text);
    return lines.question('', { signal: stopped.signal });
  };
  try {
    io.stderr.write('An empty answer is the one in brackets; Ctrl-C stops.\n');
    let description: Description = { nodes: {} };
    for (const question of QUESTIONS) description = await answered(question, description, ask, io);
    return description;
  } catch (error) {
    if (!stopped.signal.aborted) throw error;
    io.stderr.write('\n');
    return null;
  } finally {
    io.signal.removeEventListener('abort', stop);
    lines.off('close', stop);
    lines.close();
  }
}

type Ask = (text: string) => Promise<string>;

/** The description with the answer in it. What cannot be read is said, and asked for again. */
async function answered(question: Question, before: Description, ask: Ask, io: Io): Promise<Description> {
  const { path, text, mean = (it) => it } = question;
  const usual = typeof question.usual === 'string' ? question.usual : question.usual(before);
  for (;;) {
    const typed = (await ask(`${text} [${usual}] `)).trim();
    const after = placed(before, path, mean(typed === '' ? usual : typed));
    try {
      parseSystem(after);
      return after;
    } catch (error) {
      if (!(error instanceof InputError)) throw error;
      say(io, error.message);
    }
  }
}

function placed(description: Description, [group, field]: Question['path'], value: unknown): Description {
  if (field === undefined) return { ...description, [group]: value };
  const before = description[group];
  return { ...description, [group]: { ...(typeof before === 'object' ? before : {}), [field]: value } };
}
