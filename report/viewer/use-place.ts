import { type StateUpdater, useEffect, useState } from 'preact/hooks';
import { fragmentOf, type Place, placeOf } from './link.js';

/** Where the page is, which is its address. `comparing` a page of two schedules begins with their difference. */
export function usePlace(comparing: boolean): [Place, (change: StateUpdater<Place>) => void] {
  const [place, setPlace] = useState<Place>(() => placeOf(location.hash, comparing));
  useEffect(() => {
    // The address is where the page is; the back button is not for single steps, and browsers want to be told rarely.
    const timer = setTimeout(() => history.replaceState(null, '', fragmentOf(place, comparing)), 100);
    return () => clearTimeout(timer);
  }, [place]);
  useListener('hashchange', () => setPlace(placeOf(location.hash, comparing)));
  return [place, setPlace];
}

/** How wide a picture may be, pixels. */
export function useWidth(): number {
  const measured = (): number => document.documentElement.clientWidth - 8;
  const [width, setWidth] = useState(measured);
  useListener('resize', () => setWidth(measured()));
  return width;
}

function useListener(type: 'hashchange' | 'resize', onEvent: () => void): void {
  useEffect(() => {
    addEventListener(type, onEvent);
    return () => removeEventListener(type, onEvent);
  }, []);
}
