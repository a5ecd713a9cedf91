import type { RandomGenerator } from 'pure-rand/types/RandomGenerator';
import { Stream, type StreamSource } from '../sim/index.js';

/** From draw `at` on, draws come from the stream of another run: all that follow, or this one only. */
export interface Edit {
  readonly at: number;
  readonly run: number;
  readonly only: boolean;
}

/** The draws of one concern: those of a run, edited. */
export interface Gene {
  readonly run: number;
  /** Ascending by `at`. */
  readonly edits: readonly Edit[];
}

/** The draws of a whole run: a gene for each concern. What it makes was drawn by the same rules as any other run. */
export type Genome = readonly Gene[];

/** A source of streams that are those of a genome; counts how often each is drawn from. */
export class GenomeStreams implements StreamSource {
  private readonly source: StreamSource;
  private readonly genome: Genome;
  private readonly made: EditedGenerator[] = [];

  constructor(source: StreamSource, genome: Genome) {
    this.source = source;
    this.genome = genome;
  }

  stream(run: number, concern: number): Stream {
    const gene = this.genome[concern] ?? { run, edits: [] };
    const generator = new EditedGenerator(gene, (from) => this.source.stream(from, concern));
    this.made[concern] = generator;
    return new Stream(generator);
  }

  /** Draws made for a concern so far. */
  drawn(concern: number): number {
    return this.made[concern]?.drawn ?? 0;
  }
}

/** Draws from one stream after the other, as a gene says. */
class EditedGenerator implements RandomGenerator {
  drawn = 0;
  private readonly gene: Gene;
  private readonly streamOf: (run: number) => Stream;
  private current: Stream;
  private nextEdit = 0;

  constructor(gene: Gene, streamOf: (run: number) => Stream) {
    this.gene = gene;
    this.streamOf = streamOf;
    this.current = streamOf(gene.run);
  }

  next(): number {
    const edit = this.gene.edits[this.nextEdit];
    const drawn = this.drawn++;
    if (edit === undefined || drawn < edit.at) return this.current.word();
    this.nextEdit++;
    const other = this.streamOf(edit.run);
    // The place in the old stream is kept, so that what follows stays as it was.
    if (edit.only) this.current.word();
    else this.current = other;
    return other.word();
  }

  clone(): RandomGenerator {
    const copy = new EditedGenerator(this.gene, this.streamOf);
    while (copy.drawn < this.drawn) copy.next();
    return copy;
  }

  getState(): readonly number[] {
    return [this.drawn];
  }
}
