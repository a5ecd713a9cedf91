import { type StateUpdater, useEffect, useState } from 'preact/hooks';
import { type Address, addressOf, fragmentOf } from '../address.js';

/** Where the page is, which is its address. */
export function useAddress(): [Address, (change: StateUpdater<Address>) => void] {
  const [address, setAddress] = useState<Address>(() => addressOf(location.hash));
  useEffect(() => {
    const timer = setTimeout(() => history.replaceState(null, '', fragmentOf(address)), 100);
    return () => clearTimeout(timer);
  }, [address]);
  useEffect(() => {
    // As it was changed to: what is written a moment later may be there already.
    const onChange = ({ newURL }: HashChangeEvent): void => setAddress(addressOf(new URL(newURL).hash));
    addEventListener('hashchange', onChange);
    return () => removeEventListener('hashchange', onChange);
  }, []);
  return [address, setAddress];
}
