import type { Violation } from '../../properties/index.js';
import { nodeName } from '../../sim/index.js';
import { printable } from '../../text/printable.js';

/** Its connection is broken by this, or was before and a command is lost on it. */
export type Trouble = 'broken' | 'lost';

/** Something that a process has seen of one of its connections, or done with it. */
export interface ByteLine {
  readonly atUs: number;
  readonly client: string;
  readonly node: number;
  readonly text: string;
  readonly trouble: Trouble | null;
}

const LONGEST = 60;
/** Lines that are shown of one connection. */
const MOST_SHOWN = 12;
/** Lines that are shown from before it broke. */
const BEFORE = 3;

/** Bytes as a report has them. */
export function shown(bytes: string): string {
  return printable(bytes.replaceAll('\r\n', ' ').trim(), LONGEST);
}

/**
 * The order of what went over a connection that broke, of a client that is in a violation, as lines for its report; empty
 * where none did.
 */
export function bytesOf(lines: readonly ByteLine[], { clients, atUs }: Violation): string {
  const before = lines.filter((it) => clients.includes(it.client) && it.atUs <= atUs);
  // A command that went to a broken connection explains more than that it broke.
  const worst = before.findLast((it) => it.trouble === 'lost') ?? before.findLast((it) => it.trouble !== null);
  if (worst === undefined) return '';
  const { client, node } = worst;
  const own = before.filter((it) => it.client === client && it.node === node);
  const from = Math.max(0, own.findIndex((it) => it.trouble !== null && it.atUs === worst.atUs) - BEFORE);
  const text = own
    .slice(from, from + MOST_SHOWN)
    .map((it) => `    ${formatMs(it.atUs).padStart(9)}  ${it.text}\n`)
    .join('');
  return `  connection    of ${client} to ${nodeName(node)}, as ${client} saw it, times in ms:\n${text}`;
}

function formatMs(us: number): string {
  return `${us / 1000}`;
}
