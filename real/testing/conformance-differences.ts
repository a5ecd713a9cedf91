import type { Redis } from 'ioredis';
import { type RandomStream, RandomStreams } from '../../sim/index.js';
import type { Provision } from '../provisioner/index.js';
import { CASES, play } from './conformance-cases.js';
import { ALL, drawMoves, OWN, playMoves } from './conformance-random.js';
import { RedisTarget, SimTarget, type Target } from './conformance-target.js';

/** Commands of one random sequence. */
export const MOVES = 25;

export function clientOf(nodes: Provision): Redis {
  const client = nodes.nodes[0]?.client();
  if (client === undefined) throw new Error('no node');
  return client;
}

/** Every case and what the simulated node made of it: what the others are compared with. */
export async function simulatedCases(): Promise<string[]> {
  return Promise.all(CASES.map(async (line) => `${line}  ⇒  ${await play(line, new SimTarget())}`));
}

/** What a node made of the cases, each under keys of its own. */
export async function casesOnNode(nodes: Provision, prefix: string): Promise<string[]> {
  const client = clientOf(nodes);
  return Promise.all(
    CASES.map(async (line, i) => `${line}  ⇒  ${await play(line, new RedisTarget(client, `${prefix}:${i}`))}`),
  );
}

/** Random sequences in which a node and the simulated one came to different answers or keys. */
export async function differences(
  seed: string,
  sequences: number,
  pipelined: boolean,
  target: (i: number) => Target,
): Promise<unknown[]> {
  const found: unknown[] = [];
  const streams = new RandomStreams(seed);
  const playBoth = async (stream: RandomStream, i: number): Promise<void> => {
    const moves = drawMoves(stream, pipelined ? ALL : OWN, MOVES);
    const [expected, real] = await Promise.all([
      playMoves(moves, new SimTarget(), true),
      playMoves(moves, target(i), pipelined),
    ]);
    if (JSON.stringify(real) !== JSON.stringify(expected)) found.push({ moves, expected, real });
  };
  const atOnce = pipelined ? 50 : 1;
  for (let from = 0; from < sequences; from += atOnce) {
    await Promise.all(Array.from({ length: atOnce }, (_, i) => playBoth(streams.stream(from + i, 0), from + i)));
  }
  return found;
}
