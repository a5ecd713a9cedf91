import type { Violation } from '../../properties/index.js';
import { nodeName } from '../../sim/index.js';
import { printable } from '../../text/printable.js';

/** Something that a process has seen of one of its connections, or done with it. */
export interface ByteLine {
  readonly atUs: number;
  readonly client: string;
  readonly node: number;
  readonly text: string;
  /** Its connection is broken by this, or was before. */
  readonly isTrouble: boolean;
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
  const trouble = before.findLast(({ text }) => text.startsWith(LOST)) ?? before.findLast(({ isTrouble }) => isTrouble);
  if (trouble === undefined) return '';
  const { client, node } = trouble;
  const own = before.filter((it) => it.client === client && it.node === node);
  const from = Math.max(0, own.findIndex((it) => it.isTrouble && it.atUs === trouble.atUs) - BEFORE);
  const text = own
    .slice(from, from + MOST_SHOWN)
    .map((it) => `    ${formatMs(it.atUs).padStart(9)}  ${it.text}\n`)
    .join('');
  return `  connection    of ${client} to ${nodeName(node)}, as ${client} saw it, times in ms:\n${text}`;
}

/** How lines of what went to a broken connection begin. */
export const LOST = 'writes to the broken connection, where it is lost: ';

function formatMs(us: number): string {
  return `${us / 1000}`;
}
