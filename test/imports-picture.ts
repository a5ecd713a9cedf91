import type { Modules } from './modules.js';

/** Rooms on which every other may stand. */
const GROUND = ['text', 'core', 'deviations', 'scenarios', 'sim'];
/** Rooms that may import every other. */
const TOP = ['cli', 'bench'];

/** Which rooms import which. */
interface ImportsPicture {
  /** The rooms between the ground and the top, in the order of their names. */
  readonly middle: readonly string[];
  /** Arrows between two of them, as `importer → imported`. */
  readonly arrows: readonly string[];
  /** Arrows that there could be without a cycle: one for each pair of them. */
  readonly possible: number;
  /** The picture for Mermaid: what is imported points to its importer. */
  readonly mermaid: string;
}

/** The picture of what the modules of a house import. The lock is a room of its own. */
export function importsPicture(house: Modules): ImportsPicture {
  const rooms = new Set<string>();
  const arrows = new Set<string>();
  for (const [path, imports] of house) {
    rooms.add(roomOf(path));
    for (const { target } of imports) {
      if (house.has(target) && roomOf(path) !== roomOf(target)) arrows.add(`${roomOf(path)} → ${roomOf(target)}`);
    }
  }
  const drawn = [...arrows].sort();
  const middle = [...rooms].filter((room) => !GROUND.includes(room) && !TOP.includes(room)).sort();
  const between = (among: readonly string[]): string[] =>
    drawn.filter((arrow) => arrow.split(' → ').every((room) => among.includes(room)));
  const lines = (among: readonly string[], edges: readonly string[]): string[] => [
    ...among.map((room) => `${nameOf(room)}["${room}"]`),
    ...edges.map((arrow) => arrow.split(' → ').map(nameOf).reverse().join(' --> ')),
  ];
  const mermaid = [
    'flowchart LR',
    '  subgraph ground',
    ...lines(GROUND, between(GROUND)).map((line) => `    ${line}`),
    '  end',
    ...lines(middle, between(middle)).map((line) => `  ${line}`),
    '  subgraph top',
    ...lines(TOP, between(TOP)).map((line) => `    ${line}`),
    '  end',
    '  ground ~~~ top',
  ];
  const pairs = (middle.length * (middle.length - 1)) / 2;
  return { middle, arrows: between(middle), possible: pairs, mermaid: mermaid.join('\n') };
}

function roomOf(path: string): string {
  return path.startsWith('real/lock/') ? 'real/lock' : path.slice(0, path.indexOf('/'));
}

function nameOf(room: string): string {
  return room.replace('/', '_');
}
