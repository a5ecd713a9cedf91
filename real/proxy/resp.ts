const CR = 13;
const LF = 10;

/** Types whose value is the rest of the line. */
const LINES = '+-:_,#(';
/** Types that are followed by so many bytes. */
const BULKS = '$=!';
/** Types that are followed by so many values. */
const LISTS = '*~>';
/** Types that are followed by so many pairs of values. */
const MAPS = '%|';

/**
 * Cuts a stream of the Redis protocol into whole values, commands or replies, and understands no more of them than
 * that takes.
 */
export class RespCutter {
  #rest: Buffer = Buffer.alloc(0);

  /** Adds bytes, and returns the values that are complete now, each with all of its bytes. */
  push(chunk: Buffer): Buffer[] {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    const values: Buffer[] = [];
    let at = 0;
    while (at < bytes.length) {
      const end = endOfValue(bytes, at);
      if (end < 0) break;
      values.push(bytes.subarray(at, end));
      at = end;
    }
    this.#rest = bytes.subarray(at);
    return values;
  }
}

/** Where the value that begins at `from` ends, or -1 if it is not complete. */
function endOfValue(bytes: Buffer, from: number): number {
  let at = from;
  for (let open = 1; open > 0; open--) {
    const line = endOfLine(bytes, at);
    if (line < 0) return -1;
    const type = String.fromCharCode(bytes[at] ?? 0);
    if (!LINES.includes(type)) {
      const count = Number(bytes.toString('latin1', at + 1, line - 2));
      if (BULKS.includes(type)) {
        at = count < 0 ? line : line + count + 2;
        if (at > bytes.length) return -1;
        continue;
      }
      if (LISTS.includes(type)) open += Math.max(0, count);
      else if (MAPS.includes(type)) open += 2 * Math.max(0, count);
      // Anything else is a command as a person types it: one line.
    }
    at = line;
  }
  return at;
}

/** Just behind the next line end, or -1. */
function endOfLine(bytes: Buffer, from: number): number {
  for (let at = bytes.indexOf(LF, from); at >= 0; at = bytes.indexOf(LF, at + 1)) {
    if (bytes[at - 1] === CR) return at + 1;
  }
  return -1;
}

/** The words of a command, as clients send it: a list of texts. */
export function wordsOf(command: Buffer): string[] {
  const words: string[] = [];
  if (command[0] !== '*'.charCodeAt(0)) return command.toString('utf8').trim().split(/\s+/);
  let at = endOfLine(command, 0);
  while (at >= 0 && at < command.length) {
    const line = endOfLine(command, at);
    const length = Number(command.toString('latin1', at + 1, line - 2));
    words.push(command.toString('utf8', line, line + length));
    at = line + length + 2;
  }
  return words;
}

/** A command as bytes. */
export function commandOf(words: readonly (string | number)[]): Buffer {
  const parts = words.map((word) => `$${Buffer.byteLength(String(word))}\r\n${word}\r\n`);
  return Buffer.from(`*${words.length}\r\n${parts.join('')}`);
}
