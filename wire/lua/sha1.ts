import { createHash } from 'node:crypto';

/** The name of a script in a node's cache: the SHA-1 of its bytes. */
export function sha1(bytes: string): string {
  return createHash('sha1').update(bytes, 'latin1').digest('hex');
}
