import { createHash } from 'node:crypto';

/** Clients send few scripts, and each many times. */
const MOST_KNOWN = 256;
const known = new Map<string, string>();

/** The name of a script in a node's cache: the SHA-1 of its bytes. */
export function sha1(bytes: string): string {
  const before = known.get(bytes);
  if (before !== undefined) return before;
  const name = createHash('sha1').update(bytes, 'latin1').digest('hex');
  if (known.size >= MOST_KNOWN) known.clear();
  known.set(bytes, name);
  return name;
}
