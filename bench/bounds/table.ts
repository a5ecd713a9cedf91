import { dataLossRows, extendedRows, splitRows } from './count-rows.js';
import { effectRows, fencingRows } from './effect-rows.js';
import { fsyncRows } from './fsync-rows.js';
import { rateRows } from './rate-rows.js';
import type { Row } from './row.js';
import { extensionRows, restartRows, stepRows, waitingRows } from './time-rows.js';
import { timeoutRows } from './timeout-rows.js';

/** Every boundary, measured and computed. */
export function boundsTable(): Row[] {
  return [
    ...rateRows(),
    ...dataLossRows(),
    ...stepRows(),
    ...restartRows(),
    ...fsyncRows(),
    ...extensionRows(),
    ...extendedRows(),
    ...splitRows(),
    ...waitingRows(),
    ...timeoutRows(),
    ...fencingRows(),
    ...effectRows(),
  ];
}
