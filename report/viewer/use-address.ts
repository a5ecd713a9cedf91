import { type StateUpdater, useEffect, useState } from 'preact/hooks';

/**
 * State of the page that is its address.
 *
 * @param read - Makes the state from the fragment of an address.
 * @param write - Makes the fragment that leads back to a state.
 */
export function useAddress<T>(
  read: (fragment: string) => T,
  write: (state: T) => string,
): [T, (change: StateUpdater<T>) => void] {
  const [state, setState] = useState<T>(() => read(location.hash));
  useEffect(() => {
    // The address is where the page is; the back button is not for single steps, and browsers want to be told rarely.
    const timer = setTimeout(() => history.replaceState(null, '', write(state)), 100);
    return () => clearTimeout(timer);
  }, [state]);
  // As it was changed to: the write of an earlier state may have changed the address again.
  useListener('hashchange', ({ newURL }) => setState(read(new URL(newURL).hash)));
  return [state, setState];
}

/** How wide a picture may be, pixels. */
export function useWidth(): number {
  const measured = (): number => document.documentElement.clientWidth - 8;
  const [width, setWidth] = useState(measured);
  useListener('resize', () => setWidth(measured()));
  return width;
}

function useListener<K extends 'hashchange' | 'resize'>(type: K, onEvent: (event: WindowEventMap[K]) => void): void {
  useEffect(() => {
    addEventListener(type, onEvent);
    return () => removeEventListener(type, onEvent);
  }, []);
}
