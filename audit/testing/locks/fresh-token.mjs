import { randomUUID } from 'node:crypto';
import { Retrying } from './reused-token.mjs';

/** Makes a token for each try. */
export class Fresh extends Retrying {
  tokenOf() {
    return randomUUID();
  }
}
