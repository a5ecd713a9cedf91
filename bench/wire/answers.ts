/** An answer as a tree: its mark, and its text, its items, or nothing. */
export type Answer = readonly [mark: string, content: string | readonly Answer[] | null];

/** Reads answers off the bytes of a server, of either version of the protocol. */
export class AnswerReader {
  private bytes = '';
  private at = 0;

  feed(bytes: string): void {
    this.bytes = this.bytes.slice(this.at) + bytes;
    this.at = 0;
  }

  /** The next whole answer, or `null`. */
  next(): Answer | null {
    const from = this.at;
    const answer = this.read();
    if (answer === null) this.at = from;
    return answer;
  }

  private read(): Answer | null {
    const end = this.bytes.indexOf('\r\n', this.at);
    if (end < 0) return null;
    const mark = this.bytes.charAt(this.at);
    const line = this.bytes.slice(this.at + 1, end);
    this.at = end + 2;
    if (mark === '$' || mark === '=') return this.text(mark, Number(line));
    if (mark === '*' || mark === '~' || mark === '>') return this.list(mark, Number(line));
    if (mark === '%') return this.list(mark, Number(line) * 2);
    return [mark, line];
  }

  private text(mark: string, length: number): Answer | null {
    if (length < 0) return [mark, null];
    const end = this.at + length;
    if (this.bytes.length < end + 2) return null;
    const text = this.bytes.slice(this.at, end);
    this.at = end + 2;
    return [mark, text];
  }

  private list(mark: string, length: number): Answer | null {
    if (length < 0) return [mark, null];
    const items: Answer[] = [];
    while (items.length < length) {
      const item = this.read();
      if (item === null) return null;
      items.push(item);
    }
    return [mark, items];
  }
}

/** A command as bytes. */
export function encodeRequest(argv: readonly string[]): string {
  return `*${argv.length}\r\n${argv.map((it) => `$${it.length}\r\n${it}\r\n`).join('')}`;
}

/** Commands whose lists have no order that two servers share: hash tables are seeded. */
const UNORDERED: ReadonlySet<string> = new Set([
  'function',
  'hgetall',
  'hkeys',
  'hrandfield',
  'hscan',
  'hvals',
  'keys',
  'scan',
  'sdiff',
  'sinter',
  'smembers',
  'spop',
  'srandmember',
  'sscan',
  'sunion',
  'zscan',
]);

const DIGITS = 15;
/** Commands that answer times: beyond 2^53 ms, some 285 000 years, simulated servers have a double near them. */
const TIMES: ReadonlySet<string> = new Set(['ttl', 'pttl', 'expiretime', 'pexpiretime']);

/** An answer as text that is equal where two servers agree. @param queued - The names of the commands of an `EXEC`. */
export function comparable(name: string, answer: Answer, queued: readonly string[] = []): string {
  const [mark, content] = answer;
  if (name === 'exec' && mark === '*' && Array.isArray(content))
    return `exec(${content.map((it: Answer, i) => comparable(queued[i] ?? '', it)).join(' ')})`;
  if (name === 'hello' && Array.isArray(content))
    return JSON.stringify(content.map((it: Answer, i) => (i === 7 ? 'its id' : it)));
  if (TIMES.has(name) && mark === ':') return Number(content).toPrecision(DIGITS);
  if (UNORDERED.has(name)) return sorted(answer);
  return JSON.stringify(answer);
}

function sorted([mark, content]: Answer): string {
  if (content === null || typeof content === 'string') return JSON.stringify([mark, content]);
  return `${mark}(${content.map(sorted).sort().join(' ')})`;
}
