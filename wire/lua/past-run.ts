import { Failure, type Reply, Status } from '../reply.js';
import type { Chunk } from './chunk.js';
import type { ScriptRandom } from './random.js';
import type { ScriptHost } from './redis-library.js';

/** A command of a script, and the answer to it. */
interface Step {
  readonly argv: readonly string[];
  readonly reply: Reply;
}

/** A script that sends more commands is not kept: it may send millions. */
const MOST_STEPS = 64;

/** What carries out the commands of a script, and keeps them. */
export class RecordingHost implements ScriptHost {
  readonly steps: Step[] = [];
  private count = 0;
  /** The run depends on nothing but what the script is given and what its commands are answered. */
  isPlain = true;
  private readonly host: ScriptHost;
  private readonly answers: readonly Reply[];

  /** @param answers - To its first commands, which are carried out already. */
  constructor(host: ScriptHost, answers: readonly Reply[]) {
    this.host = host;
    this.answers = answers;
  }

  call(argv: readonly string[]): Reply {
    const nth = this.count++;
    const reply = nth < this.answers.length ? (this.answers[nth] ?? null) : this.host.call(argv);
    if (nth < MOST_STEPS) this.steps.push({ argv, reply });
    else this.isPlain = false;
    return reply;
  }

  /** The run that has ended with this reply; `null` where it could end in another way, or its reply names the script. */
  pastRun(chunk: Chunk, keys: readonly string[], argv: readonly string[], reply: Reply): PastRun | null {
    const isKept = this.isPlain && !(reply instanceof Failure);
    return isKept ? new PastRun(chunk, keys, argv, this.steps, reply) : null;
  }

  get protocol(): 2 | 3 {
    return this.host.protocol;
  }

  set protocol(protocol: 2 | 3) {
    if (protocol === 3) this.isPlain = false;
    this.host.protocol = protocol;
  }

  get random(): ScriptRandom {
    this.isPlain = false;
    return this.host.random;
  }

  get version(): string {
    return this.host.version;
  }
}

/**
 * A run of a script that came to its end. The same script with the same arguments, whose commands are answered alike, ends alike:
 * a lock of several nodes sends each of them the same script, and most of them answer it alike. A run that ends with an error is
 * not kept: the error has the SHA-1 of the script with its shebang, which is no part of the text here.
 */
export class PastRun {
  readonly reply: Reply;
  private readonly text: string;
  private readonly keys: readonly string[];
  private readonly argv: readonly string[];
  private readonly steps: readonly Step[];

  constructor({ text }: Chunk, keys: readonly string[], argv: readonly string[], steps: readonly Step[], reply: Reply) {
    this.text = text;
    this.keys = keys;
    this.argv = argv;
    this.steps = steps;
    this.reply = reply;
  }

  /** Whether it was a run of this script, with these arguments. */
  isOf({ text }: Chunk, keys: readonly string[], argv: readonly string[]): boolean {
    return areSame(argv, this.argv) && areSame(keys, this.keys) && text === this.text;
  }

  /**
   * Carries out its commands here for as long as they are answered alike, and says whether all were.
   * @param answers - Where the answers are put.
   */
  repeats(host: ScriptHost, answers: Reply[]): boolean {
    for (const { argv, reply } of this.steps) {
      const answer = host.call(argv);
      answers.push(answer);
      if (!isSame(answer, reply)) return false;
    }
    return true;
  }
}

function areSame(some: readonly string[], others: readonly string[]): boolean {
  if (some.length !== others.length) return false;
  for (let i = 0; i < some.length; i++) if (some[i] !== others[i]) return false;
  return true;
}

/** Lists, and other replies that few scripts of locks get, count as different: then the script runs. */
function isSame(one: Reply, other: Reply): boolean {
  if (one === other) return true;
  if (one instanceof Status) return other instanceof Status && one.text === other.text;
  if (one instanceof Failure) return other instanceof Failure && one.text === other.text;
  return false;
}
