import type { JSX, RefObject } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { type Mark, type Picture, textWidth } from '../picture/marks.js';
import type { Scene } from '../picture/scene.js';
import { SVG_DEFS } from '../picture/svg.js';
import { Card, type CardAt, cardOf } from './card.js';
import { markAt } from './hit.js';
import { Minimap } from './minimap.js';
import { Stage } from './stage.js';
import { MarkIndex, thinned } from './visible.js';

/** How far beyond its edges a picture is painted ahead, pixels. */
const AHEAD = 600;
/** A picture that is this many times as wide as what is seen of it has a small one above it. */
const LONG = 1.4;

interface PictureProps {
  readonly picture: Picture;
  readonly scene: Scene;
  /** Sequence number and process of the selected event. */
  readonly selected: { readonly seq: number; readonly process: string } | null;
  readonly onPick: (seq: number) => void;
  /** Counts what was asked to be closed: cards go with it. */
  readonly closed?: number;
}

/** A picture with a cursor and cards; only what can be seen of it is painted, and the names of its lanes stay. */
export function PictureView({ picture, scene, selected, onPick, closed }: PictureProps): JSX.Element {
  const sight = useSight(picture);
  const { box, follow } = sight;
  const [card, setCard] = useState<CardAt | null>(null);
  const { width, gutter } = picture;
  const index = useMemo(() => indexOf(picture), [picture]);
  const words = useMemo(() => wordsOf(picture), [picture]);
  const x = selected === null ? null : picture.xOf(selected.seq);
  const lane = picture.lanes.find(({ id }) => id === selected?.process);
  useEffect(() => setCard(null), [closed, picture]);
  // Before it is painted: a step takes one frame, and no picture jumps after its cursor.
  useLayoutEffect(() => {
    const it = box.current;
    if (it === null || x === null || selected === null) return;
    const [from, to] = besideOf(words, x, it.clientWidth - gutter);
    if (from < it.scrollLeft + gutter || to > it.scrollLeft + it.clientWidth)
      it.scrollLeft = Math.max(0, (from + to - it.clientWidth - gutter) / 2);
    follow();
    const isHere = document.activeElement === it;
    setCard(isHere ? { seq: selected.seq, words: '', x: x - it.scrollLeft, y: lane?.y ?? 0 } : null);
  }, [selected?.seq, x, picture]);
  const at = (event: MouseEvent): { readonly mark: Mark | null; readonly x: number; readonly y: number } => {
    const { left, top } = (event.currentTarget as Element).getBoundingClientRect();
    const [px, py] = [event.clientX - left, event.clientY - top];
    return { mark: markAt(index.between(px - 12, px + 12), px, py), x: px, y: py };
  };
  const onMove = (event: MouseEvent): void => {
    const { mark, x: px, y: py } = at(event);
    const { scrollLeft = 0, scrollTop = 0 } = box.current ?? {};
    setCard(mark === null ? null : cardOf(mark, px - scrollLeft, py - scrollTop));
  };
  const onClick = (event: MouseEvent): void => {
    const { mark } = at(event);
    if (mark?.seq !== undefined) onPick(mark.seq);
  };
  const room = box.current?.clientWidth ?? document.documentElement.clientWidth;
  return (
    <div class="view">
      {width > LONG * room ? <Minimap picture={picture} most={Math.ceil(width - room)} {...sight} /> : null}
      {/* A region that scrolls has to be reachable by keyboard. */}
      <section
        class="scroll"
        ref={box}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: see above
        tabIndex={0}
        aria-label="Picture of the run, scrolls sideways"
        onScroll={follow}
      >
        <Stage {...{ picture, index, x, lane, onMove, onClick }} window={sight.window} onLeave={() => setCard(null)} />
      </section>
      {card === null ? null : <Card at={card} scene={scene} width={room} />}
      <svg
        class="picture defs"
        aria-hidden="true"
        width="0"
        height="0"
        dangerouslySetInnerHTML={{ __html: SVG_DEFS }}
      />
    </div>
  );
}

/** What does not stay at the edge, by where it lies. */
function indexOf({ marks, width }: Picture): MarkIndex {
  return new MarkIndex(
    thinned(
      marks.filter((it) => it.pinned !== true),
      width,
    ),
  );
}

/** From where to where something reaches, pixels. */
type Extent = readonly [from: number, to: number];

/** The words on what went wrong, and on what would have prevented it. */
function wordsOf({ marks }: Picture): Extent[] {
  return marks.flatMap((it) =>
    it.shape === 'text' && (it.role === 'bad' || it.role === 'good')
      ? [[it.x, it.x + textWidth(it.text, 12)] as const]
      : [],
  );
}

/** What has to be in sight with an event: some of what follows it, and the words near it as far as there is room. */
function besideOf(words: readonly Extent[], x: number, room: number): Extent {
  let beside: Extent = [x - 16, x + Math.min(160, room / 3)];
  for (const [from, to] of words) {
    const both: Extent = [Math.min(from, beside[0]), Math.max(to, beside[1])];
    if (both[1] - both[0] <= room) beside = both;
  }
  return beside;
}

/** Which part of a picture is in sight. */
interface Sight {
  readonly box: RefObject<HTMLDivElement | null>;
  /** Of the small picture: what is in sight, and what moves it. */
  readonly frame: RefObject<SVGRectElement | null>;
  readonly slider: RefObject<HTMLInputElement | null>;
  /** What is painted, pixels from the left. */
  readonly window: { readonly from: number; readonly to: number };
  /** Paints on as the picture scrolls. */
  readonly follow: () => void;
  readonly onMove: (left: number) => void;
}

function useSight(picture: Picture): Sight {
  const box = useRef<HTMLDivElement>(null);
  const frame = useRef<SVGRectElement>(null);
  const slider = useRef<HTMLInputElement>(null);
  const [window, setWindow] = useState({ from: 0, to: 2400 });
  const follow = (): void => {
    const it = box.current;
    if (it === null) return;
    const [left, right] = [it.scrollLeft, it.scrollLeft + it.clientWidth];
    frame.current?.setAttribute('x', String(left));
    frame.current?.setAttribute('width', String(it.clientWidth));
    if (slider.current !== null) slider.current.value = String(left);
    if (left >= window.from && right <= window.to) return;
    setWindow({ from: Math.max(0, left - AHEAD), to: right + AHEAD });
  };
  useLayoutEffect(follow, [picture]);
  const onMove = (left: number): void => {
    if (box.current !== null) box.current.scrollLeft = left;
  };
  return { box, frame, slider, window, follow, onMove };
}
