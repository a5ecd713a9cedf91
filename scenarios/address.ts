import type { MessageAddress } from './schedule.js';

/** The address of a message as one text: the same for the same message, whatever of it is left out. */
export function addressText(address: MessageAddress): string {
  const { client, lock = 0, attempt = 0, operation, round = 0, node, direction, send = 0 } = address;
  return `${client} ${lock} ${attempt} ${operation} ${round} ${node} ${direction} ${send}`;
}
