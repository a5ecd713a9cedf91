import { useEffect, useState } from 'preact/hooks';

/** Events a second that a page can be played at. */
export const SPEEDS: readonly number[] = [1, 2, 5, 10, 25];

/** Whether and how fast a page plays by itself. */
export interface Play {
  readonly isOn: boolean;
  readonly speed: number;
  readonly toggle: () => void;
  readonly stop: () => void;
  readonly setSpeed: (speed: number) => void;
}

/** Takes a step again and again while it is on; stops where there is none. @param isAtEnd - Whether there is no next event. */
export function usePlay(isAtEnd: boolean, step: () => void): Play {
  const [isOn, setOn] = useState(false);
  const [speed, setSpeed] = useState(2);
  useEffect(() => {
    if (!isOn) return;
    if (isAtEnd) {
      setOn(false);
      return;
    }
    const timer = setTimeout(step, 1000 / speed);
    return () => clearTimeout(timer);
  });
  return { isOn, speed, toggle: () => setOn((now) => !now), stop: () => setOn(false), setSpeed };
}
