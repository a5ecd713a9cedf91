import type { View } from './marks.js';

/** What of a picture depends on how much room there is. */
export interface Frame {
  /** Where names of lanes begin, and where time begins, pixels. */
  readonly nameX: number;
  readonly gutter: number;
  readonly margin: number;
  /** What a lane is stands below its name rather than beside it. */
  readonly isNarrow: boolean;
}

/** Below this a picture is one of a phone, pixels. */
const NARROW = 600;

const WIDE_FRAME: Frame = { nameX: 14, gutter: 124, margin: 30, isNarrow: false };
const NARROW_FRAME: Frame = { nameX: 8, gutter: 72, margin: 18, isNarrow: true };

/** The frame of a picture in this view. */
export function frameOf({ width }: Pick<View, 'width'>): Frame {
  return width < NARROW ? NARROW_FRAME : WIDE_FRAME;
}
